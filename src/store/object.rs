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
    /// JSON as an item of a list.
    pub item: Bytes,
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
