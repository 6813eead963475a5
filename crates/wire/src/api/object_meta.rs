//! The part of an object that a cache must read: its identity and labels.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::protobuf_wire::{Fields, Value};

/// The `metadata` of an object, with only the fields that are needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ObjectMeta {
    /// The name, unique among the objects of a resource and namespace.
    pub name: String,
    /// The namespace, empty for a cluster-scoped object.
    pub namespace: String,
    /// The UID, which no other object of the cluster ever has.
    pub uid: String,
    /// The resourceVersion as written.
    pub resource_version: String,
    /// The labels, by key.
    #[serde(deserialize_with = "null_as_default")]
    pub labels: BTreeMap<String, String>,
}

/// An object of which only kind, apiVersion and metadata are read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct PartialObject {
    /// The kind, such as `Pod`. It is empty if the JSON has none, as in the items of
    /// most lists.
    pub kind: String,
    /// The group version, such as `apps/v1`. It is empty if the JSON has none.
    pub api_version: String,
    /// The metadata.
    pub metadata: ObjectMeta,
}

/// The field number of `metadata` in every object.
const METADATA: u64 = 1;

impl ObjectMeta {
    /// Reads the metadata out of an object's protobuf message. `None` if a field
    /// occurs twice or is not text; then the JSON of the message decides what it
    /// means.
    pub fn of_message(object: &[u8]) -> Option<Self> {
        let mut metadata = None;
        for field in Fields::new(object) {
            if let (METADATA, value) = field.ok()?
                && metadata.replace(value).is_some()
            {
                return None;
            }
        }
        let Value::Bytes(metadata) = metadata? else {
            return None;
        };
        let mut found = Self::default();
        for field in Fields::new(metadata) {
            let (number, value) = field.ok()?;
            // The numbers are those of k8s.io.apimachinery.pkg.apis.meta.v1.
            let place = match number {
                1 => &mut found.name,
                3 => &mut found.namespace,
                5 => &mut found.uid,
                6 => &mut found.resource_version,
                11 => {
                    let (key, value) = label(value)?;
                    if found.labels.insert(key, value).is_some() {
                        return None;
                    }
                    continue;
                }
                _ => continue,
            };
            if !place.is_empty() {
                return None;
            }
            *place = text(value)?;
        }
        Some(found)
    }
}

fn text(value: Value<'_>) -> Option<String> {
    match value {
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok(),
        Value::Varint(_) | Value::Cut(_) | Value::Fixed => None,
    }
}

/// Reads an entry of a map of strings.
fn label(entry: Value<'_>) -> Option<(String, String)> {
    let Value::Bytes(entry) = entry else {
        return None;
    };
    let mut fields = Fields::new(entry);
    match (fields.next()?.ok()?, fields.next()?.ok()?, fields.next()) {
        ((1, key), (2, value), None) => Some((text(key)?, text(value)?)),
        _ => None,
    }
}

fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::super::protobuf_wire::put_bytes;
    use super::*;

    fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, value) in fields {
            put_bytes(*number, value, &mut out);
        }
        out
    }

    fn read(metadata: &[(u8, &[u8])]) -> Option<ObjectMeta> {
        ObjectMeta::of_message(&message(&[(1, &message(metadata)), (2, b"\x0a\x01s")]))
    }

    #[test]
    fn messages_tell_what_selects_them() {
        let labels = [
            message(&[(1, b"a"), (2, b"x")]),
            message(&[(1, b"b"), (2, b"")]),
        ];
        let found = read(&[
            (1, b"name"),
            (2, b"prefix-"),
            (3, b"namespace"),
            (5, b"uid"),
            (6, b"7"),
            (11, &labels[0]),
            (11, &labels[1]),
            (12, b"ignored"),
        ]);
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let expected = ObjectMeta {
            name: "name".to_owned(),
            namespace: "namespace".to_owned(),
            uid: "uid".to_owned(),
            resource_version: "7".to_owned(),
            labels: BTreeMap::from([label("a", "x"), label("b", "")]),
        };
        assert_eq!(found, Some(expected));
        assert_eq!(read(&[]), Some(ObjectMeta::default()));
    }

    #[test]
    fn what_is_unusual_is_left_to_json() {
        let label = message(&[(1, b"a"), (2, b"x")]);
        for metadata in [
            &[(1, &b"a"[..]), (1, b"b")][..],
            &[(11, &label), (11, &label)],
            &[(11, &message(&[(2, b"x")]))],
            &[(11, &message(&[(2, b"x"), (1, b"a")]))],
            &[(11, &message(&[(1, b"a"), (2, b"x"), (2, b"y")]))],
            &[(5, b"\xff")],
        ] {
            assert_eq!(read(metadata), None, "{metadata:?}");
        }
        let twice = message(&[(1, b""), (2, b""), (1, b"")]);
        for object in [&b""[..], b"\x12\x00", b"\x08\x01", b"\x0a\x05", &twice] {
            assert_eq!(ObjectMeta::of_message(object), None, "{object:?}");
        }
    }
}
