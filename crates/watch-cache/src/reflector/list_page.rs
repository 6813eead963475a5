//! A page of a list, taken apart.

use std::fmt;

use bytes::Bytes;
use kubernetes_wire::api::ResourceVersion;
use kubernetes_wire::api::protobuf_wire::{Fields, Value};
use kubernetes_wire::representation::protobuf_envelope::Answer;
use kubernetes_wire::representation::{Encoding, Envelope, Form};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::list::ListError;

/// Memory that an item of a page takes beside its bytes, while it is parsed.
pub(super) const ITEM_BYTES: usize = 64;

#[derive(Debug)]
pub(super) struct ListPage {
    pub(super) encoding: Encoding,
    pub(super) envelope: Envelope,
    pub(super) resource_version: u64,
    pub(super) continue_token: String,
    /// As they stand in the list; slices of its body.
    pub(super) items: Vec<Bytes>,
}

impl ListPage {
    /// A page of more than `most` items is refused.
    pub(super) fn parse(encoding: Encoding, body: &Bytes, most: usize) -> Result<Self, ListError> {
        match encoding {
            Encoding::Json => json(body, most),
            Encoding::Protobuf => message(body, most),
        }
    }
}

fn version(text: &str) -> Result<u64, ListError> {
    ResourceVersion::parse(text)
        .map(|version| version.0)
        .map_err(ListError::Version)
}

/// Kinds of lists are named after those of their items.
fn item_kind(list_kind: &str) -> &str {
    list_kind.strip_suffix("List").unwrap_or(list_kind)
}

fn json(body: &Bytes, most: usize) -> Result<ListPage, ListError> {
    // A CustomResourceDefinition may name its list kind freely; its items say
    // what they are.
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default)]
        kind: String,
    }
    let list = List::parse(body, most)?;
    let form = Form::detect(body).ok_or(ListError::Form)?;
    let items = list.items;
    let said = items
        .first()
        .and_then(|item| serde_json::from_str::<Kind>(item.get()).ok())
        .map(|k| k.kind)
        .filter(|kind| !kind.is_empty());
    let kind = said.as_deref().unwrap_or_else(|| item_kind(&list.kind));
    Ok(ListPage {
        encoding: Encoding::Json,
        envelope: Envelope::new(form, &list.api_version, kind, &list.kind),
        resource_version: version(&list.metadata.resource_version)?,
        continue_token: list.metadata.continue_token,
        items: items
            .into_iter()
            .map(|item| body.slice_ref(item.get().as_bytes()))
            .collect(),
    })
}

/// A list in JSON.
#[derive(Default)]
struct List<'a> {
    kind: String,
    api_version: String,
    metadata: Meta,
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    resource_version: String,
    #[serde(default, rename = "continue")]
    continue_token: String,
}

impl<'a> List<'a> {
    fn parse(body: &'a [u8], most: usize) -> Result<Self, serde_json::Error> {
        let mut parser = serde_json::Deserializer::from_slice(body);
        let list = parser.deserialize_map(ListVisitor { most })?;
        parser.end()?;
        Ok(list)
    }
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
        let mut list = List::default();
        let (mut kind, mut api_version, mut metadata) = (None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "kind" => kind = Some(map.next_value()?),
                "apiVersion" => api_version = Some(map.next_value()?),
                "metadata" => metadata = Some(map.next_value()?),
                "items" => list.items = map.next_value_seed(Items { most: self.most })?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        list.kind = kind.ok_or_else(|| A::Error::missing_field("kind"))?;
        list.api_version = api_version.ok_or_else(|| A::Error::missing_field("apiVersion"))?;
        list.metadata = metadata.ok_or_else(|| A::Error::missing_field("metadata"))?;
        Ok(list)
    }
}

/// The items of a list, or null.
struct Items {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Items {
    type Value = Vec<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Items {
    type Value = Vec<&'de RawValue>;

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
        while let Some(item) = seq.next_element()? {
            if items.len() >= self.most {
                return Err(A::Error::custom("more items than there is memory for"));
            }
            items.push(item);
        }
        Ok(items)
    }
}

fn message(body: &Bytes, most: usize) -> Result<ListPage, ListError> {
    let malformed = || ListError::Protobuf("not a list");
    let answer = Answer::parse(body).ok_or_else(malformed)?;
    let mut resource_version = "";
    let mut continue_token = "";
    let mut items = Vec::new();
    let text = |bytes| std::str::from_utf8(bytes).map_err(|_| malformed());
    for field in Fields::new(answer.message) {
        match field.map_err(|_| malformed())? {
            (1, Value::Bytes(metadata)) => {
                for field in Fields::new(metadata) {
                    match field.map_err(|_| malformed())? {
                        (2, Value::Bytes(version)) => resource_version = text(version)?,
                        (3, Value::Bytes(token)) => continue_token = text(token)?,
                        _ => {}
                    }
                }
            }
            (2, Value::Bytes(_)) if items.len() >= most => {
                return Err(ListError::Protobuf(
                    "a list of more items than there is memory for",
                ));
            }
            (2, Value::Bytes(item)) => items.push(body.slice_ref(item)),
            // Of a newer server, or cut off.
            _ => return Err(ListError::Protobuf("a list with more than items")),
        }
    }
    let list_kind = answer.kind;
    let kind = item_kind(list_kind);
    Ok(ListPage {
        encoding: Encoding::Protobuf,
        envelope: Envelope::new(Form::Struct, answer.api_version, kind, list_kind),
        resource_version: version(resource_version)?,
        continue_token: continue_token.to_owned(),
        items,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_nothing_but_empty_items_is_refused() {
        let page = |items: &str| {
            let text = format!(
                r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":{items},"extra":[{{}}]}}"#
            );
            ListPage::parse(Encoding::Json, &Bytes::from(text), 3).map(|page| page.items.len())
        };
        for (items, expected) in [("null", 0), ("[]", 0), ("[{}]", 1), ("[{},{},{}]", 3)] {
            assert_eq!(page(items).unwrap(), expected, "{items}");
        }
        assert!(page("[{},{},{},{}]").is_err());
        assert!(page("{}").is_err() && page("[{}").is_err());
    }
}
