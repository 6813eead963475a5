//! One version of one object.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use super::buffer::Buffer;
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
    size: usize,
    item: Mutex<Item>,
}

/// An object's bytes, which never change, and where they are, which may.
#[derive(Debug)]
struct Item {
    bytes: Bytes,
    /// What they are a slice of; none if they are all of their allocation.
    buffer: Option<Arc<Buffer>>,
}

impl Drop for Item {
    fn drop(&mut self) {
        if let Some(buffer) = &self.buffer {
            buffer.release(self.bytes.len());
        }
    }
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
        let values = fields.values(&item);
        Ok(Self::new(
            key,
            meta.uid.into(),
            resource_version,
            meta.labels,
            values,
            item,
        ))
    }

    fn new(
        key: ObjectKey,
        uid: Box<str>,
        resource_version: u64,
        labels: BTreeMap<String, String>,
        fields: Box<[Box<str>]>,
        item: Bytes,
    ) -> Self {
        let texts: usize = labels.iter().map(|(k, v)| k.len() + v.len() + 48).sum();
        let size = item.len() + key.as_str().len() + uid.len() + texts + 200;
        Self {
            key,
            uid,
            resource_version,
            labels,
            fields,
            size,
            item: Mutex::new(Item {
                bytes: item,
                buffer: None,
            }),
        }
    }

    /// JSON as an item of a list.
    pub fn item(&self) -> Bytes {
        self.item.lock().bytes.clone()
    }

    pub(super) fn is_version_of(&self, other: &Self) -> bool {
        self.resource_version == other.resource_version && self.uid == other.uid
    }

    /// Whether this is the same version of the same object, and looks the same.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.is_version_of(other) && self.item() == other.item()
    }

    /// From here on the bytes are `slice`, the same ones inside a buffer.
    pub(super) fn move_into(&self, buffer: &Arc<Buffer>, slice: Bytes) {
        *self.item.lock() = Item {
            bytes: slice,
            buffer: Some(buffer.clone()),
        };
    }

    /// Takes the bytes out of the buffer they are in, which is returned.
    pub(super) fn move_out(&self) -> Option<Arc<Buffer>> {
        let mut item = self.item.lock();
        let buffer = item.buffer.clone()?;
        *item = Item {
            bytes: Bytes::copy_from_slice(&item.bytes),
            buffer: None,
        };
        Some(buffer)
    }

    /// What the bytes are in.
    pub(super) fn buffer(&self) -> Option<Arc<Buffer>> {
        self.item.lock().buffer.clone()
    }

    /// The same object, renamed to another version: what a watcher gets as
    /// DELETED is the last state it saw, stamped with the version of the
    /// deletion.
    pub fn stamped(&self, resource_version: u64, item: Bytes) -> Self {
        Self::new(
            self.key.clone(),
            self.uid.clone(),
            resource_version,
            self.labels.clone(),
            self.fields.clone(),
            item,
        )
    }

    /// Bytes this object holds on to, roughly.
    pub fn size(&self) -> usize {
        self.size
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
