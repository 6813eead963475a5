//! One version of one object.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{FieldTable, ObjectKey};
use crate::api::{PartialObject, ResourceVersion};

/// An object as the cache keeps it: what selects it, and its bytes.
///
/// The bytes are a list item's: what LIST, GET and WATCH splice into their
/// envelopes.
#[derive(Debug)]
pub struct StoredObject {
    pub key: ObjectKey,
    pub uid: Box<str>,
    pub resource_version: u64,
    pub labels: BTreeMap<String, String>,
    /// Values of the resource's [`FieldTable`], in its order.
    pub fields: Box<[Box<str>]>,
    item: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub enum MalformedObject {
    #[error("object is not JSON with metadata: {0}")]
    Json(#[from] serde_json::Error),
    #[error("object has no name")]
    Nameless,
    #[error("object {0:?} has resourceVersion {1:?}: not a number")]
    ResourceVersion(ObjectKey, String),
}

impl StoredObject {
    /// `item` is kept: it must not be a slice of a larger buffer.
    pub fn parse(item: Bytes, fields: &FieldTable) -> Result<Self, MalformedObject> {
        let object: PartialObject = serde_json::from_slice(&item)?;
        let meta = object.metadata;
        if meta.name.is_empty() {
            return Err(MalformedObject::Nameless);
        }
        let key = ObjectKey::new(&meta.namespace, &meta.name);
        let Ok(ResourceVersion(resource_version)) = ResourceVersion::parse(&meta.resource_version)
        else {
            return Err(MalformedObject::ResourceVersion(key, meta.resource_version));
        };
        Ok(Self {
            fields: fields.values(&item),
            uid: meta.uid.into(),
            labels: meta.labels,
            key,
            resource_version,
            item,
        })
    }

    /// JSON as an item of a list.
    pub fn item(&self) -> Bytes {
        self.item.clone()
    }

    /// The same object, renamed to another version: what a watcher gets as
    /// DELETED is the last state it saw, stamped with the version of the
    /// deletion.
    pub fn stamped(&self, resource_version: u64, item: Bytes) -> Self {
        Self {
            key: self.key.clone(),
            uid: self.uid.clone(),
            resource_version,
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            item,
        }
    }

    /// Bytes this object holds on to, roughly.
    pub fn size(&self) -> usize {
        let labels: usize = self
            .labels
            .iter()
            .map(|(k, v)| k.len() + v.len() + 48)
            .sum();
        self.item.len() + self.key.as_str().len() + self.uid.len() + labels + 200
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::api::GroupVersionResource;
    use crate::store::field_table;

    fn parse(item: &str) -> Result<StoredObject, MalformedObject> {
        let pods = field_table(&GroupVersionResource::new("", "v1", "pods"));
        StoredObject::parse(Bytes::copy_from_slice(item.as_bytes()), &pods)
    }

    #[test]
    fn objects_say_what_selects_them() {
        let item = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":{"x":"y"}},"spec":{"nodeName":"node"},"status":{"phase":"Running"}}"#;
        let object = parse(item).unwrap();
        assert_eq!(object.key.as_str(), "n/a");
        assert_eq!((&*object.uid, object.resource_version), ("u", 7));
        assert_eq!(object.labels["x"], "y");
        assert!(object.fields.iter().any(|f| &**f == "node"));
        assert!(object.fields.iter().any(|f| &**f == "Running"));
        assert_eq!(object.item(), item);
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for item in [
            "",
            "null",
            "{}",
            "[1]",
            r#"{"metadata":null}"#,
            r#"{"metadata":{"name":""}}"#,
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"x"}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"-1"}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"18446744073709551616"}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":7}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"7","labels":{"x":1}}}"#,
            r#"{"metadata":{"name":"a","resourceVersion":"7"}} x"#,
        ] {
            assert!(parse(item).is_err(), "{item}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse(&format!(r#"{{"metadata":{{"name":"a"}},"x":{deep}"#)).is_err());
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("{\"metadata\":{\"name\":\"a\",\"resourceVersion\":\"1\"".to_owned()),
                    Just("\"spec\":{\"nodeName\":".to_owned()),
                    Just("\"labels\":{\"a\":\"b\"}".to_owned()),
                    Just("}".to_owned()),
                    Just(",".to_owned()),
                    Just("\"\\ud800".to_owned()),
                    ".{0,6}",
                ],
                0..12,
            )
        ) {
            let _ = parse(&pieces.concat());
        }
    }
}
