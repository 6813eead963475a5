//! Stores of pods.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::{Envelope, Form};

use crate::store::{Resource, Store, StoreWriter, StoredObject, field_table};

pub(crate) fn resource() -> Resource {
    let gvr = GroupVersionResource::new("", "v1", "pods");
    Resource {
        fields: field_table(&gvr),
        gvr,
        namespaced: true,
        envelope: Envelope::new(Form::Struct, "v1", "Pod", "PodList"),
        bookmark: OnceLock::new(),
    }
}

/// Returns pods in two namespaces, of which every `nodes`th runs on the same node.
pub(crate) fn on_nodes(number: usize, nodes: usize) -> (StoreWriter, Arc<Store>) {
    let resource = resource();
    let pods = (0..number).map(|n| on_node(n, n % nodes, 5));
    let pods = pods.map(|pod| StoredObject::parse(pod, &resource.fields).unwrap());
    let pods = pods.collect();
    Store::new(resource, pods, 5)
}

/// Returns the `n`th pod in JSON.
pub(crate) fn on_node(n: usize, node: usize, version: u64) -> Bytes {
    let namespace = ["a", "b"][n % 2];
    Bytes::from(format!(
        r#"{{"metadata":{{"name":"p{n:04}","namespace":"{namespace}","resourceVersion":"{version}"}},"spec":{{"nodeName":"n{node}"}}}}"#
    ))
}
