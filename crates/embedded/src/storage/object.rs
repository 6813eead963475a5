//! One state of one object.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use serde_json::Value;

/// `namespace/name`, or `name` for a cluster-scoped object. The byte order of this
/// string is etcd's order, and so that of lists and continue tokens.
pub type Key = Arc<str>;

pub struct Stored {
    /// `metadata.resourceVersion` equals `revision`.
    pub value: Value,
    pub revision: u64,
    pub labels: BTreeMap<String, String>,
    encoded: OnceLock<Bytes>,
}

impl Stored {
    pub fn new(mut value: Value, revision: u64) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), revision.to_string().into());
        }
        let labels = value
            .pointer("/metadata/labels")
            .and_then(Value::as_object)
            .map(|labels| {
                labels
                    .iter()
                    .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
                    .collect()
            })
            .unwrap_or_default();
        Self {
            value,
            revision,
            labels,
            encoded: OnceLock::new(),
        }
    }

    /// Returns the encoding of this state. It is made only once.
    pub fn encoded(&self, encode: impl FnOnce(&Value) -> Bytes) -> Bytes {
        self.encoded.get_or_init(|| encode(&self.value)).clone()
    }

    pub fn restamped(&self, revision: u64) -> Self {
        Self::new(self.value.clone(), revision)
    }
}
