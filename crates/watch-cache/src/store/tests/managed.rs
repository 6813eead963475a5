//! Stores whose objects have managedFields, and the same without.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use kubernetes_wire::representation::Encoding;

use super::pods;
use crate::store::{Resource, Store, StoreWriter, StoredObject};

const MANAGED: &str = r#","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-11-21T03:48:19Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:nodeName":{}}}}]"#;

fn item(n: usize, version: u64, managed: &str) -> Bytes {
    let odd = n % 2;
    format!(
        r#"{{"metadata":{{"name":"p{n:03}","namespace":"a","uid":"u{n}","resourceVersion":"{version}","creationTimestamp":"2026-11-21T03:48:19Z","labels":{{"odd":"{odd}"}}{managed}}},"spec":{{"nodeName":"n{odd}","containers":null}},"status":{{}}}}"#
    )
    .into()
}

/// Two stores with the same objects, but for their managedFields.
pub(crate) struct Stores {
    pub(crate) whole: (StoreWriter, Arc<Store>),
    pub(crate) rest: (StoreWriter, Arc<Store>),
    stored: Encoding,
}

impl Stores {
    pub(crate) fn new(stored: Encoding) -> Self {
        let store = |managed: &str| {
            let resource = pods::resource();
            // Some objects never had a manager.
            let objects = (0..300).map(|n| {
                let managed = if n % 10 == 0 { "" } else { managed };
                object(&resource, stored, item(n, 5, managed))
            });
            let objects = objects.collect();
            Store::new(resource, objects, 9)
        };
        Self {
            whole: store(MANAGED),
            rest: store(""),
            stored,
        }
    }

    pub(crate) fn write(&self, n: usize, version: u64) {
        for ((writer, store), managed) in [(&self.whole, MANAGED), (&self.rest, "")] {
            let object = object(&store.resource, self.stored, item(n, version, managed));
            writer.apply_object(false, object, Instant::now());
        }
    }
}

fn object(resource: &Resource, stored: Encoding, item: Bytes) -> StoredObject {
    let item = match stored {
        Encoding::Json => item,
        Encoding::Protobuf => resource.envelope.transcoded(&item, stored).unwrap(),
    };
    StoredObject::decode(stored, item, &resource.fields, &resource.envelope).unwrap()
}
