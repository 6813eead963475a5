//! The priorities of upstream's groups, from its APIServices.

use std::collections::HashMap;

use kubernetes_wire::api::GroupVersion;
use serde::Deserialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Priority {
    pub(super) group: i32,
    pub(super) version: i32,
}

impl Default for Priority {
    /// Returns the priority that kube-apiserver uses for a version without one.
    fn default() -> Self {
        Self {
            group: 1000,
            version: 15,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Priorities(HashMap<GroupVersion, Priority>);

#[derive(Deserialize)]
struct List {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Spec {
    group: String,
    version: String,
    group_priority_minimum: i32,
    version_priority: i32,
}

impl Priorities {
    /// Reads an APIServiceList. If it is malformed, all versions get the default
    /// priority.
    pub(super) fn parse(json: &[u8]) -> Self {
        let list: List = match serde_json::from_slice(json) {
            Ok(list) => list,
            Err(error) => {
                tracing::warn!(%error, "the upstream's APIServices cannot be read");
                return Self::default();
            }
        };
        let of = |spec: Spec| {
            let version = GroupVersion {
                group: spec.group,
                version: spec.version,
            };
            let priority = Priority {
                group: spec.group_priority_minimum,
                version: spec.version_priority,
            };
            (version, priority)
        };
        Self(list.items.into_iter().map(|item| of(item.spec)).collect())
    }

    pub(super) fn set(&mut self, version: GroupVersion, priority: Priority) {
        self.0.insert(version, priority);
    }

    pub(super) fn get(&self, version: &GroupVersion) -> Priority {
        self.0.get(version).copied().unwrap_or_default()
    }
}
