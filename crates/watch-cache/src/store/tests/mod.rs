//! Tests of a store that its writer fills by hand.

mod leaves;
pub(crate) mod managed;
mod model;
pub(crate) mod pods;
mod retained;
mod step;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::{Envelope, Form};

use super::*;

/// Items in JSON by key.
type State = BTreeMap<String, Bytes>;

const NAMESPACES: [&str; 3] = ["a", "a-b", "b"];

fn key_of(name: usize) -> (&'static str, String, String) {
    let namespace = NAMESPACES[name % NAMESPACES.len()];
    let name = format!("n{name:03}");
    let key = format!("{namespace}/{name}");
    (namespace, name, key)
}

fn item(name: usize, uid: u64, version: u64, padding: usize) -> Bytes {
    let (namespace, name, _) = key_of(name);
    let padding = "x".repeat(padding);
    Bytes::from(format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{version}"}},"data":"{padding}"}}"#
    ))
}

fn json(object: &StoredObject) -> Bytes {
    object.json(&resource().envelope).unwrap()
}

pub(crate) fn resource() -> Resource {
    let gvr = GroupVersionResource::new("", "v1", "configmaps");
    Resource {
        fields: field_table(&gvr),
        gvr,
        namespaced: true,
        envelope: Envelope::new(Form::Struct, "v1", "ConfigMap", "ConfigMapList"),
        bookmark: OnceLock::new(),
    }
}

pub(crate) fn object() -> Arc<StoredObject> {
    Arc::new(parse(&item(1, 1, 1, 0)))
}

fn parse(item: &Bytes) -> StoredObject {
    StoredObject::parse(item.clone(), &resource().fields).unwrap()
}

fn gathered(state: &State) -> Gathered {
    let mut gatherer = Gatherer::default();
    state.values().for_each(|item| gatherer.push(parse(item)));
    gatherer.finish()
}
