//! Splits a server's list into its metadata and the bytes of each item.

use std::fmt;

use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::Encoding;
use super::protobuf_envelope::Answer;
use crate::api::protobuf_wire::{Fields, Value};

/// A list whose items are not parsed.
#[derive(Debug, Default)]
pub struct List<'a> {
    /// The kind, empty if the list has none. The same applies to `api_version`.
    pub kind: String,
    /// The group version, empty if the list has none.
    pub api_version: String,
    /// The resourceVersion as written, empty if there is none.
    pub resource_version: String,
    /// Empty on the last page.
    pub continue_token: String,
    /// The bytes of the items in the list.
    pub items: Vec<&'a [u8]>,
}

/// Why bytes cannot be read as a list.
#[derive(Debug, thiserror::Error)]
pub enum NotAList {
    /// The bytes are not the JSON of a list, or the list has too many items.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The bytes are not the protobuf of a list, or the list has too many items.
    #[error("{0}")]
    Protobuf(&'static str),
}

impl<'a> List<'a> {
    /// Parses a list. A list of more than `most` items is refused.
    pub fn parse(encoding: Encoding, body: &'a [u8], most: usize) -> Result<Self, NotAList> {
        match encoding {
            Encoding::Json => Ok(Self::from_json(body, most)?),
            Encoding::Protobuf => Self::from_message(body, most),
        }
    }

    /// Parses a list in JSON. A list of more than `most` items is refused.
    pub fn from_json(body: &'a [u8], most: usize) -> Result<Self, serde_json::Error> {
        let mut parser = serde_json::Deserializer::from_slice(body);
        let list = parser.deserialize_map(ListVisitor { most })?;
        parser.end()?;
        Ok(list)
    }

    fn from_message(body: &'a [u8], most: usize) -> Result<Self, NotAList> {
        let malformed = || NotAList::Protobuf("not a list");
        let answer = Answer::parse(body).ok_or_else(malformed)?;
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).map_err(|_| malformed())?;
            Ok::<_, NotAList>(text.to_owned())
        };
        let mut list = Self {
            kind: answer.kind.to_owned(),
            api_version: answer.api_version.to_owned(),
            ..Self::default()
        };
        for field in Fields::new(answer.message) {
            match field.map_err(|_| malformed())? {
                (1, Value::Bytes(metadata)) => {
                    for field in Fields::new(metadata) {
                        match field.map_err(|_| malformed())? {
                            (2, Value::Bytes(version)) => list.resource_version = text(version)?,
                            (3, Value::Bytes(token)) => list.continue_token = text(token)?,
                            _ => {}
                        }
                    }
                }
                (2, Value::Bytes(_)) if list.items.len() >= most => {
                    return Err(NotAList::Protobuf(
                        "a list of more items than there is memory for",
                    ));
                }
                (2, Value::Bytes(item)) => list.items.push(item),
                // A field of a newer server, or a truncated list.
                _ => return Err(NotAList::Protobuf("a list with more than items")),
            }
        }
        Ok(list)
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    continue_token: String,
}

struct ListVisitor {
    most: usize,
}

impl<'de> Visitor<'de> for ListVisitor {
    type Value = List<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<List<'de>, A::Error> {
        let mut items = Vec::new();
        let (mut kind, mut api_version, mut metadata) = (String::new(), String::new(), None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "kind" => kind = map.next_value()?,
                "apiVersion" => api_version = map.next_value()?,
                "metadata" => metadata = Some(map.next_value()?),
                "items" => items = map.next_value_seed(Items { most: self.most })?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let metadata: Metadata = metadata.ok_or_else(|| A::Error::missing_field("metadata"))?;
        Ok(List {
            kind,
            api_version,
            resource_version: metadata.resource_version,
            continue_token: metadata.continue_token,
            items,
        })
    }
}

struct Items {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Items {
    type Value = Vec<&'de [u8]>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Items {
    type Value = Vec<&'de [u8]>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("items")
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<&RawValue>()? {
            if items.len() >= self.most {
                return Err(A::Error::custom("more items than there is memory for"));
            }
            items.push(item.get().as_bytes());
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_list() {
        let text = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"c"},"items":[{"a":1}, {}],"extra":[]}"#;
        let list = List::from_json(text.as_bytes(), 2).unwrap();
        assert_eq!(
            (list.kind.as_str(), list.api_version.as_str()),
            ("PodList", "v1")
        );
        assert_eq!(list.resource_version, "7");
        assert_eq!(list.continue_token, "c");
        assert_eq!(list.items, [&br#"{"a":1}"#[..], b"{}"]);
        let bare = List::from_json(br#"{"metadata":{},"items":null}"#, 2).unwrap();
        assert!(bare.kind.is_empty() && bare.items.is_empty());
        for bad in [r#"{"kind":"PodList","apiVersion":"v1"}"#, "[]", "<html>"] {
            assert!(List::from_json(bad.as_bytes(), 2).is_err(), "{bad}");
        }
    }
}
