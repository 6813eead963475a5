//! The registry of the served resources and their behaviour.
//!
//! Built-in resources are a table. Custom resources come and go with their
//! definitions. Readers get the current set as one pointer.

mod built_in;
mod custom;
mod defaults;
mod fields;
mod names;
mod resource;

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::Value;

#[cfg(test)]
pub(crate) use built_in::GROUP_ORDER;
pub(crate) use custom::accept as accept_definition;
pub(crate) use defaults::{prepare_create, prepare_update};
pub(crate) use names::check_name;
pub(crate) use resource::{Resource, Scale, Subresource, Verbs};

use kubernetes_wire::api::{GroupResource, GroupVersion, version_order};

pub(crate) struct Registry {
    built_in: Arc<[Arc<Resource>]>,
    served: ArcSwap<Served>,
}

/// A consistent set of the served resources.
pub(crate) struct Served {
    built_in: Arc<[Arc<Resource>]>,
    /// Sorted by group, version priority and resource.
    custom: Vec<Arc<Resource>>,
}

impl Default for Registry {
    fn default() -> Self {
        let built_in: Arc<[_]> = built_in::resources().into_iter().map(Arc::new).collect();
        Self {
            served: ArcSwap::from_pointee(Served {
                built_in: built_in.clone(),
                custom: Vec::new(),
            }),
            built_in,
        }
    }
}

impl Registry {
    pub(crate) fn served(&self) -> Arc<Served> {
        self.served.load_full()
    }

    pub(crate) fn lookup(
        &self,
        group: &str,
        version: &str,
        resource: &str,
    ) -> Option<Arc<Resource>> {
        self.served
            .load()
            .all()
            .find(|r| {
                r.gvr.resource == resource && r.gvr.group == group && r.gvr.version == version
            })
            .cloned()
    }

    /// Serves the resources of `definitions`, and no other custom resources.
    pub(crate) fn set_definitions<'a>(&self, definitions: impl Iterator<Item = &'a Value>) {
        let mut custom: Vec<Arc<Resource>> = definitions
            .flat_map(custom::resources)
            .map(Arc::new)
            .collect();
        custom.sort_by(|a, b| {
            a.gvr
                .group
                .cmp(&b.gvr.group)
                .then_with(|| version_order::compare(&a.gvr.version, &b.gvr.version))
                .then_with(|| a.gvr.resource.cmp(&b.gvr.resource))
        });
        self.served.store(Arc::new(Served {
            built_in: self.built_in.clone(),
            custom,
        }));
    }
}

impl Served {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.built_in.iter().chain(&self.custom)
    }

    pub(crate) fn in_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.all()
            .filter(move |r| r.gvr.group == group && r.gvr.version == version)
    }

    pub(crate) fn is_built_in_group(&self, group: &str) -> bool {
        self.built_in.iter().any(|r| r.gvr.group == group)
    }

    /// Returns every group except the core group, with its versions, the preferred
    /// one first.
    pub(crate) fn groups(&self) -> Vec<(String, Vec<String>)> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for name in built_in::GROUP_ORDER {
            groups.push(((*name).to_owned(), Vec::new()));
        }
        for resource in self.all().filter(|r| !r.gvr.group.is_empty()) {
            let (group, version) = (&resource.gvr.group, &resource.gvr.version);
            match groups.iter_mut().find(|(name, _)| name == group) {
                Some((_, versions)) if versions.contains(version) => {}
                Some((_, versions)) => versions.push(version.clone()),
                None => groups.push((group.clone(), vec![version.clone()])),
            }
        }
        groups
    }

    pub(crate) fn versions(&self) -> Vec<GroupVersion> {
        let core = GroupVersion {
            group: String::new(),
            version: "v1".to_owned(),
        };
        std::iter::once(core)
            .chain(self.groups().into_iter().flat_map(|(group, versions)| {
                versions.into_iter().map(move |version| GroupVersion {
                    group: group.clone(),
                    version,
                })
            }))
            .collect()
    }

    /// Returns the resources of namespaced objects, one for each keyspace.
    pub(crate) fn namespaced(&self) -> Vec<Arc<Resource>> {
        let mut seen: Vec<GroupResource> = Vec::new();
        self.all()
            .filter(|r| r.namespaced && r.verbs != Verbs::CreateOnly)
            .filter(|r| {
                let name = r.group_resource();
                let new = !seen.contains(&name);
                if new {
                    seen.push(name);
                }
                new
            })
            .cloned()
            .collect()
    }
}
