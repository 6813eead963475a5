//! `x-kubernetes-group-version-kind`: the kinds that a definition or an operation is
//! about.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use serde_json::value::RawValue;

use super::spec::{Members, object};

pub(super) const KINDS: &str = "x-kubernetes-group-version-kind";

/// Returns the first definition with the kinds of both, or `None` if it has them
/// already.
pub(super) fn merge_kinds(first: &str, second: &str) -> Result<Option<String>, serde_json::Error> {
    if first == second {
        return Ok(None);
    }
    let Members(members) = serde_json::from_str(first)?;
    let Members(others) = serde_json::from_str(second)?;
    let kinds = |members: &[(String, &RawValue)]| {
        let found = members.iter().find(|(name, _)| name == KINDS);
        found.map(|(_, value)| value.get().to_owned())
    };
    let merged = match (kinds(&members), kinds(&others)) {
        (_, None) => return Ok(None),
        (None, Some(other)) => other,
        (Some(own), Some(other)) => match join(&own, &other)? {
            Some(joined) => joined,
            None => return Ok(None),
        },
    };
    let mut members: Vec<(String, Cow<'_, str>)> = members
        .into_iter()
        .map(|(name, value)| (name, value.get().into()))
        .collect();
    match members.iter_mut().find(|(name, _)| name == KINDS) {
        Some((_, value)) => *value = merged.into(),
        None => {
            // Extensions come last, sorted by name.
            let later = |(name, _): &(String, _)| name.starts_with("x-") && name.as_str() > KINDS;
            let at = members.iter().position(later).unwrap_or(members.len());
            members.insert(at, (KINDS.to_owned(), merged.into()));
        }
    }
    Ok(Some(object(&members)))
}

/// Joins two lists of kinds. `None` if the first has all kinds of the second.
fn join(first: &str, second: &str) -> Result<Option<String>, serde_json::Error> {
    let parse = |text| -> Result<Vec<(String, String)>, serde_json::Error> {
        let items: Vec<&RawValue> = serde_json::from_str(text)?;
        let keyed = items.into_iter().map(|item| {
            let kind: BTreeMap<String, String> = serde_json::from_str(item.get())?;
            let part = |name: &str| kind.get(name).map(String::as_str).unwrap_or_default();
            let key = format!("{}/{}.{}", part("group"), part("version"), part("kind"));
            Ok((key, item.get().to_owned()))
        });
        keyed.collect()
    };
    let mut kinds = parse(first)?;
    let known: BTreeSet<String> = kinds.iter().map(|(key, _)| key.clone()).collect();
    let before = kinds.len();
    let new = parse(second)?.into_iter();
    kinds.extend(new.filter(|(key, _)| !known.contains(key)));
    if kinds.len() == before {
        return Ok(None);
    }
    kinds.sort();
    let texts: Vec<String> = kinds.into_iter().map(|(_, text)| text).collect();
    Ok(Some(format!("[{}]", texts.join(","))))
}

/// Sorts the fields of each operation's kind. Servers write them in the order of the
/// Go type, but Go sorts them when it writes a map that it has read. `None` if all
/// are sorted.
pub(super) fn sort_kinds(text: &str) -> Option<String> {
    let key = format!("\"{KINDS}\":");
    let mut out = String::new();
    let mut copied = 0;
    for (at, _) in text.match_indices(&key) {
        let start = at.saturating_add(key.len());
        let Some(object) = text.get(start..).filter(|rest| rest.starts_with('{')) else {
            continue;
        };
        let mut values = serde_json::Deserializer::from_str(object).into_iter::<Value>();
        let Some(Ok(kind)) = values.next() else {
            continue;
        };
        out.push_str(text.get(copied..start)?);
        out.push_str(&kind.to_string());
        copied = start.saturating_add(values.byte_offset());
    }
    out.push_str(text.get(copied..)?);
    (out != text).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_operations_are_sorted() {
        let text = |kind: &str| format!(r#"{{"get":{{"{KINDS}":{kind},"a":1}},"x":"{KINDS}"}}"#);
        let sorted = text(r#"{"group":"g","kind":"k","version":"v"}"#);
        let unsorted = text(r#"{"group":"g","version":"v","kind":"k"}"#);
        assert_eq!(sort_kinds(&unsorted), Some(sorted.clone()));
        assert_eq!(sort_kinds(&sorted), None);
        assert_eq!(sort_kinds("{}"), None);
    }
}
