//! Finds references in the JSON text of a specification, so that definitions can be
//! copied unparsed, with the order of their fields.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

const KEY: &str = "\"$ref\"";

pub(super) const DEFINITION: &str = "#/definitions/";
pub(super) const PARAMETER: &str = "#/parameters/";

/// Returns the values of all `$ref` fields, in order.
pub(super) fn references(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    spans(text).filter_map(|span| text.get(span).map(value))
}

/// Replaces each reference for which `renamed` has a new name.
pub(super) fn rename<'a>(text: &'a str, renamed: &BTreeMap<String, String>) -> Cow<'a, str> {
    let mut out = String::new();
    let mut copied = 0;
    for span in spans(text) {
        let (Some(literal), Some(before)) = (text.get(span.clone()), text.get(copied..span.start))
        else {
            continue;
        };
        let Some(name) = renamed.get(value(literal).as_ref()) else {
            continue;
        };
        out.push_str(before);
        out.push_str(&serde_json::Value::from(name.as_str()).to_string());
        copied = span.end;
    }
    match text.get(copied..) {
        Some(rest) if copied > 0 => {
            out.push_str(rest);
            out.into()
        }
        _ => text.into(),
    }
}

/// Returns the ranges of the values' string literals. Text inside a string never
/// matches: there the key's first quote is escaped, or no colon follows the key.
fn spans(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices(KEY).filter_map(move |(at, _)| {
        if text.get(..at)?.ends_with('\\') {
            return None;
        }
        let rest = text.get(at..)?.strip_prefix(KEY)?;
        let rest = rest.trim_start().strip_prefix(':')?.trim_start();
        let inner = rest.strip_prefix('"')?;
        let mut escaped = false;
        let end = inner.bytes().position(|byte| {
            let end = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            end
        })?;
        let after = inner.get(end..)?.strip_prefix('"')?;
        Some(text.len().checked_sub(rest.len())?..text.len().checked_sub(after.len())?)
    })
}

fn value(literal: &str) -> Cow<'_, str> {
    if literal.contains('\\')
        && let Ok(text) = serde_json::from_str::<String>(literal)
    {
        return text.into();
    }
    literal.trim_matches('"').into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r##"{"a":{"$ref":"#/definitions/A"},"description":"\"$ref\":\"x\"","properties":{"$ref":{"type":"string"}},"required":["$ref"],"b":[{"$ref" : "#\/definitions/B"}]}"##;

    #[test]
    fn references_are_found() {
        let found: Vec<_> = references(TEXT).collect();
        assert_eq!(found, ["#/definitions/A", "#/definitions/B"]);
    }

    #[test]
    fn references_are_renamed() {
        let renamed = [("#/definitions/B", "#/definitions/B_v2")];
        let renamed = renamed.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        let out = rename(TEXT, &renamed);
        let expected = TEXT.replace(r##""#\/definitions/B""##, r##""#/definitions/B_v2""##);
        assert_eq!(out, expected);
        assert!(matches!(rename(TEXT, &BTreeMap::new()), Cow::Borrowed(_)));
    }
}
