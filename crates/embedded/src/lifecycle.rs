//! The work of controllers, which do not exist here, as far as clients need it:
//! namespaces are emptied, definitions are served and removed, pods end.

use std::sync::Arc;

use kubernetes_wire::api::GroupResource;
use serde_json::{Value, json};

use super::{
    meta::{self, GARBAGE_COLLECTION},
    registry::{self, Resource},
    server::EmbeddedServer,
    storage::{CommitError, Expect, Stored},
};

/// The most attempts to collect an object while other writes change it. After
/// that the object stays, and another DELETE starts its collection again.
const COLLECTION_ATTEMPTS: usize = 16;

const SYSTEM_NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

pub(crate) fn namespaces() -> GroupResource {
    GroupResource {
        group: String::new(),
        resource: "namespaces".to_owned(),
    }
}

pub(crate) fn definitions() -> GroupResource {
    GroupResource {
        group: "apiextensions.k8s.io".to_owned(),
        resource: "customresourcedefinitions".to_owned(),
    }
}

impl EmbeddedServer {
    pub(super) fn create_system_namespaces(&self) {
        for name in SYSTEM_NAMESPACES {
            self.seed(
                "",
                "v1",
                json!({"kind": "Namespace", "metadata": {"name": name}}),
            );
        }
    }

    /// Stores an object as its creation would leave it, but keeps its status.
    /// Objects of unknown kinds and existing names are skipped.
    pub(super) fn seed(
        &self,
        group: &str,
        version: &str,
        mut object: Value,
    ) -> Option<Arc<Stored>> {
        let kind = object.get("kind")?.as_str()?.to_owned();
        let served = self.registry().served();
        let resource: Arc<Resource> = served
            .in_version(group, version)
            .find(|resource| resource.kind == kind)?
            .clone();
        let status = object.get("status").cloned();
        let now = meta::now();
        let metadata = meta::metadata_mut(&mut object);
        for (key, value) in [
            ("uid", uuid::Uuid::new_v4().to_string()),
            ("creationTimestamp", now.clone()),
        ] {
            metadata.entry(key).or_insert_with(|| value.into());
        }
        if resource.generation {
            metadata.insert("generation".into(), 1.into());
        }
        registry::prepare_create(&resource, &mut object);
        if let (Some(status), Some(map)) = (status, object.as_object_mut()) {
            map.insert("status".into(), status);
        }
        let is_definition = resource.is_definition();
        if is_definition {
            registry::accept_definition(&mut object, &now).ok()?;
        }
        super::view::to_stored(&resource, &mut object);
        let key = resource.key(meta::namespace(&object), meta::name(&object));
        let stored = self
            .storage()
            .put(&resource.group_resource(), &key, Expect::Absent, object)
            .ok()?;
        if is_definition {
            self.refresh_definitions();
        }
        Some(stored)
    }

    /// Serves the resources of the stored definitions.
    pub(super) fn refresh_definitions(&self) {
        let snapshot = self.storage().snapshot(&definitions());
        let serving = snapshot
            .objects
            .values()
            .map(|stored| &stored.value)
            .filter(|definition| !meta::is_deleting(definition));
        self.registry().set_definitions(serving);
        self.register_api_services();
    }

    /// Removes a definition that is marked as deleted, with its objects.
    pub(super) fn remove_definition(&self, name: &str) {
        self.refresh_definitions();
        let Some(stored) = self.storage().get(&definitions(), name) else {
            return;
        };
        let text = |pointer: &str| {
            stored
                .value
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let resource = GroupResource {
            group: text("/spec/group"),
            resource: text("/spec/names/plural"),
        };
        for (key, object) in &self.storage().snapshot(&resource).objects {
            // A concurrent write may come first; the object's resource is removed
            // in any case.
            let _ = self
                .storage()
                .remove(&resource, key, Expect::Revision(object.revision));
        }
        self.storage().drop_resource(&resource);
        let _ = self
            .storage()
            .remove(&definitions(), name, Expect::Revision(stored.revision));
    }

    /// Deletes everything in a namespace that is being deleted, then the
    /// namespace. Objects with finalizers keep it until they are gone.
    pub(super) fn empty_namespace(&self, namespace: &str) {
        let prefix = format!("{namespace}/");
        let mut kept = false;
        for resource in self.registry().served().namespaced() {
            let resource = resource.group_resource();
            for (key, object) in &self.storage().snapshot(&resource).objects {
                if !key.starts_with(&prefix) {
                    continue;
                }
                let result = if meta::has_finalizers(&object.value) {
                    kept = true;
                    self.mark_deleted(&resource, key, object)
                } else {
                    self.storage()
                        .remove(&resource, key, Expect::Revision(object.revision))
                        .map(|_| ())
                };
                kept |= result == Err(CommitError::Changed);
            }
        }
        if !kept && let Some(stored) = self.storage().get(&namespaces(), namespace) {
            let _ =
                self.storage()
                    .remove(&namespaces(), namespace, Expect::Revision(stored.revision));
        }
    }

    fn mark_deleted(
        &self,
        resource: &GroupResource,
        key: &str,
        object: &Stored,
    ) -> Result<(), CommitError> {
        if meta::is_deleting(&object.value) {
            return Ok(());
        }
        let mut value = object.value.clone();
        let metadata = meta::metadata_mut(&mut value);
        metadata.insert("deletionTimestamp".into(), meta::now().into());
        metadata.insert("deletionGracePeriodSeconds".into(), 0.into());
        self.storage()
            .put(resource, key, Expect::Revision(object.revision), value)
            .map(|_| ())
    }

    /// Empties a namespace that waits for its objects. Called after an object
    /// left it.
    pub(super) fn namespace_content_removed(&self, namespace: &str) {
        let waits = self
            .storage()
            .get(&namespaces(), namespace)
            .is_some_and(|stored| meta::is_deleting(&stored.value));
        if waits {
            self.empty_namespace(namespace);
        }
    }

    /// Does the garbage collector's work for a waiting object: removes its
    /// finalizers, and the object if no other finalizers keep it.
    pub(super) fn finish_collection(&self, resource: &GroupResource, key: &str, uid: &str) {
        for _ in 0..COLLECTION_ATTEMPTS {
            let Some(stored) = self.storage().get(resource, key) else {
                return;
            };
            if meta::uid(&stored.value) != uid || !meta::is_deleting(&stored.value) {
                return;
            }
            let left: Vec<&str> = meta::finalizers(&stored.value)
                .into_iter()
                .filter(|finalizer| !GARBAGE_COLLECTION.contains(finalizer))
                .collect();
            let expect = Expect::Revision(stored.revision);
            let grace = stored.value.pointer("/metadata/deletionGracePeriodSeconds");
            let result = if left.is_empty() && grace.and_then(Value::as_i64).unwrap_or(0) == 0 {
                let removed = self.storage().remove(resource, key, expect);
                self.namespace_content_removed(meta::namespace(&stored.value));
                removed
            } else {
                let mut value = stored.value.clone();
                let metadata = meta::metadata_mut(&mut value);
                metadata.insert("finalizers".into(), left.into());
                meta::drop_empty(metadata);
                self.storage().put(resource, key, expect, value)
            };
            if !matches!(result, Err(CommitError::Changed)) {
                return;
            }
        }
    }

    pub(super) fn finish_termination(&self, resource: &GroupResource, key: &str, uid: &str) {
        let Some(stored) = self.storage().get(resource, key) else {
            return;
        };
        if meta::uid(&stored.value) != uid || !meta::is_deleting(&stored.value) {
            return;
        }
        if meta::has_finalizers(&stored.value) {
            // The grace period is over; the object waits for its finalizers.
            let mut value = stored.value.clone();
            meta::metadata_mut(&mut value).insert("deletionGracePeriodSeconds".into(), 0.into());
            let _ = self
                .storage()
                .put(resource, key, Expect::Revision(stored.revision), value);
            return;
        }
        let _ = self
            .storage()
            .remove(resource, key, Expect::Revision(stored.revision));
        self.namespace_content_removed(meta::namespace(&stored.value));
    }
}
