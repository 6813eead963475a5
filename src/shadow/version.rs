//! The version of an answer: `metadata.resourceVersion` of an object, a list or a
//! Table.

use std::borrow::Cow;

use kubernetes_wire::api::ResourceVersion;
use kubernetes_wire::api::protobuf_wire::{Fields, Value};
use kubernetes_wire::representation::protobuf_envelope::Answer;
use serde::Deserialize;

use super::representation::Label;

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow)]
    resource_version: Cow<'a, str>,
}

/// Returns the version of a whole answer. `is_list` tells lists from objects,
/// because in protobuf they have the version in different fields.
pub fn of_answer(label: Label, is_list: bool, body: &[u8]) -> Option<u64> {
    let number = |text: &str| ResourceVersion::parse(text).ok().map(|v| v.0);
    if label.is_protobuf() {
        let answer = Answer::parse(body)?;
        let metadata = field(answer.message, 1)?;
        let version = field(metadata, if is_list { 2 } else { 6 })?;
        return number(std::str::from_utf8(version).ok()?);
    }
    if label == Label::Yaml {
        return number(in_yaml(std::str::from_utf8(body).ok()?)?);
    }
    let object: Object<'_> = serde_json::from_slice(body).ok()?;
    number(&object.metadata.resource_version)
}

pub(super) fn field(message: &[u8], number: u64) -> Option<&[u8]> {
    Fields::new(message).find_map(|field| match field {
        Ok((found, Value::Bytes(bytes))) if found == number => Some(bytes),
        _ => None,
    })
}

/// Finds the version among the lines below `metadata:` that are indented by two
/// spaces, as Go's library writes them.
fn in_yaml(text: &str) -> Option<&str> {
    let mut lines = text.lines().skip_while(|line| *line != "metadata:");
    lines.next()?;
    let metadata = lines.take_while(|line| line.starts_with(' '));
    let mut versions = metadata.filter_map(|line| line.strip_prefix("  resourceVersion: "));
    Some(versions.next()?.trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_that_of_the_whole() {
        let item = r#"{"metadata":{"resourceVersion":"3"}}"#;
        let list = format!(r#"{{"items":[{item}],"metadata":{{"resourceVersion":"7"}}}}"#);
        assert_eq!(of_answer(Label::Json, true, list.as_bytes()), Some(7));
        assert_eq!(of_answer(Label::Json, false, item.as_bytes()), Some(3));
        let yaml = "items:\n- metadata:\n    resourceVersion: \"3\"\nmetadata:\n  labels:\n    \
                    resourceVersion: \"4\"\n  resourceVersion: \"7\"\n";
        assert_eq!(of_answer(Label::Yaml, true, yaml.as_bytes()), Some(7));
        for broken in ["", "{}", "[", r#"{"metadata":{"resourceVersion":"x"}}"#] {
            for label in [Label::Json, Label::Yaml, Label::Protobuf] {
                assert_eq!(of_answer(label, true, broken.as_bytes()), None, "{broken}");
            }
        }
    }

    #[test]
    fn protobuf_has_it_in_the_metadata() {
        let bytes = |number: u8, content: &[u8]| {
            let mut out = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
            out.extend_from_slice(content);
            out
        };
        let answer = |number| {
            let message = bytes(1, &bytes(number, b"12"));
            [&b"k8s\0"[..], &bytes(2, &message)].concat()
        };
        assert_eq!(of_answer(Label::Protobuf, true, &answer(2)), Some(12));
        assert_eq!(of_answer(Label::Protobuf, false, &answer(6)), Some(12));
        assert_eq!(of_answer(Label::Protobuf, false, &answer(2)), None);
    }
}
