//! Hands the cluster's FlowSchemas and PriorityLevelConfigurations to the engine.

use std::collections::HashSet;

use apifront_fairness::{Fairness, Objects};
use bytes::Bytes;
use kubernetes_wire::api::GroupVersionResource;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

pub fn flow_schemas() -> GroupVersionResource {
    GroupVersionResource::new(GROUP, "v1", "flowschemas")
}

pub fn priority_levels() -> GroupVersionResource {
    GroupVersionResource::new(GROUP, "v1", "prioritylevelconfigurations")
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectsJson {
    pub flow_schemas: Vec<Bytes>,
    pub priority_levels: Vec<Bytes>,
}

/// Logs each mistake in the objects once while it lasts.
#[derive(Default)]
pub(super) struct Schemas {
    told: Mutex<HashSet<String>>,
}

impl Schemas {
    /// Configures the engine. `None` stands for the objects of a new cluster.
    pub(super) fn configure(&self, fairness: &Fairness, objects: Option<&ObjectsJson>) {
        let mut mistakes = Vec::new();
        let objects = match objects {
            Some(json) => Objects {
                flow_schemas: read(&json.flow_schemas, &mut mistakes),
                priority_levels: read(&json.priority_levels, &mut mistakes),
            },
            None => Objects::defaults(),
        };
        let ignored = fairness.configure(objects);
        mistakes.extend(ignored.iter().map(ToString::to_string));
        let mut told = self.told.lock();
        for mistake in mistakes.iter().filter(|mistake| !told.contains(*mistake)) {
            tracing::warn!(mistake, "flow control");
        }
        *told = mistakes.into_iter().collect();
    }
}

/// Decodes objects. A malformed object is left out, so that the others apply.
fn read<T: DeserializeOwned>(objects: &[Bytes], mistakes: &mut Vec<String>) -> Vec<T> {
    let objects = objects.iter().map(|json| serde_json::from_slice(json));
    let objects = objects.filter_map(|object: serde_json::Result<T>| {
        object
            .map_err(|error| mistakes.push(format!("an object cannot be read: {error}")))
            .ok()
    });
    objects.collect()
}
