//! Finds the first difference of two JSON documents.

use std::time::Duration;

use serde_json::Value;

use super::age;
use super::difference::Difference;

/// Returns the first difference by its path. `None` if a side is not JSON, or if
/// they differ only in order, spacing and ages of Tables.
pub(super) fn first_difference(
    path: &str,
    upstream: &[u8],
    apifront: &[u8],
    between: Duration,
) -> Option<Difference> {
    let upstream: Value = serde_json::from_slice(upstream).ok()?;
    let apifront: Value = serde_json::from_slice(apifront).ok()?;
    let is_table = upstream
        .pointer("/kind")
        .or(upstream.pointer("/object/kind"))
        == Some(&Value::from("Table"));
    let ages = is_table.then_some(between);
    walk(path, Some(&upstream), Some(&apifront), ages)
}

/// serde_json's parser limits the depth.
fn walk(
    path: &str,
    upstream: Option<&Value>,
    apifront: Option<&Value>,
    ages: Option<Duration>,
) -> Option<Difference> {
    if upstream == apifront {
        return None;
    }
    match (upstream, apifront) {
        (Some(Value::Object(theirs)), Some(Value::Object(ours))) => {
            let more = ours.keys().filter(|name| !theirs.contains_key(*name));
            let mut names = theirs.keys().chain(more);
            names.find_map(|name| {
                let path = format!("{path}.{name}");
                walk(&path, theirs.get(name), ours.get(name), ages)
            })
        }
        (Some(Value::Array(theirs)), Some(Value::Array(ours))) => {
            let length = theirs.len().max(ours.len());
            (0..length)
                .find_map(|i| walk(&format!("{path}[{i}]"), theirs.get(i), ours.get(i), ages))
        }
        (Some(Value::String(theirs)), Some(Value::String(ours)))
            if ages.is_some_and(|between| age::ticked(theirs, ours, between)) =>
        {
            None
        }
        (theirs, ours) => {
            let bytes = |value: Option<&Value>| value.map(|v| v.to_string().into_bytes());
            let (theirs, ours) = (bytes(theirs), bytes(ours));
            Some(Difference::of_bytes(
                path,
                theirs.as_deref(),
                ours.as_deref(),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_has_a_path() {
        for (one, other, path) in [
            (
                r#"{"a":{"b":[1,2]}}"#,
                r#"{"a":{"b":[1,3]}}"#,
                "body.a.b[1]",
            ),
            (r#"{"a":[1]}"#, r#"{"a":[1,2]}"#, "body.a[1]"),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, "body.b"),
            (r#"{"a":1,"b":2}"#, r#"{"a":1}"#, "body.b"),
            (r#"{"a":1}"#, r#"{"a":"1"}"#, "body.a"),
        ] {
            let found = first_difference("body", one.as_bytes(), other.as_bytes(), Duration::ZERO);
            assert_eq!(found.unwrap().path, path);
        }
        let order = (br#"{"a":1,"b":2}"#, br#"{"b":2,"a":1}"#);
        assert_eq!(
            first_difference("body", order.0, order.1, Duration::ZERO),
            None
        );
        assert_eq!(first_difference("body", b"[", b"[", Duration::ZERO), None);
    }
}
