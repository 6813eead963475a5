//! Versioned, ordered, watchable objects in memory, in place of a real API server's
//! etcd and watch cache.
//!
//! One counter gives every write its resourceVersion. Each resource has its own
//! [`Keyspace`]: a persistent map, so that a snapshot is a pointer, and a bounded
//! log of events that watchers read with a cursor. Storage knows nothing about
//! HTTP, kinds or watchers.

mod commit;
mod keyspace;
mod object;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use serde_json::Value;

pub use commit::{CommitError, Expect};
pub use keyspace::{Event, Keyspace, Snapshot, SnapshotError, TooOld};
pub use object::{Key, Stored};

use kubernetes_wire::api::GroupResource;

/// The default number of events that a resource remembers. Each event holds its
/// object and a snapshot (a few KiB of shared tree nodes), so this bounds a
/// busy resource to some tens of MiB. Watches from before the oldest event
/// answer 410.
pub const HISTORY_EVENTS: usize = 4096;

pub struct Storage {
    revision: AtomicU64,
    /// Held while a revision is assigned and published, so that events enter
    /// every log in the order of their revisions.
    writer: Mutex<()>,
    keyspaces: RwLock<BTreeMap<GroupResource, Arc<Keyspace>>>,
    history: usize,
}

impl Storage {
    pub fn new(history: usize) -> Self {
        Self {
            revision: AtomicU64::new(1),
            writer: Mutex::new(()),
            keyspaces: RwLock::default(),
            history: history.max(1),
        }
    }

    /// Returns the revision of the last write. Everything that is read
    /// afterwards includes that write.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    pub fn keyspace(&self, resource: &GroupResource) -> Arc<Keyspace> {
        if let Some(found) = self.keyspaces.read().get(resource) {
            return found.clone();
        }
        self.keyspaces
            .write()
            .entry(resource.clone())
            .or_insert_with(|| Arc::new(Keyspace::new(self.history)))
            .clone()
    }

    pub fn get(&self, resource: &GroupResource, key: &str) -> Option<Arc<Stored>> {
        self.keyspace(resource).get(key)
    }

    /// Returns the newest state. Its revision is at least that of any finished
    /// write.
    pub fn snapshot(&self, resource: &GroupResource) -> Snapshot {
        let revision = self.revision();
        self.keyspace(resource).snapshot(revision)
    }

    pub fn snapshot_at(
        &self,
        resource: &GroupResource,
        revision: u64,
    ) -> Result<Snapshot, SnapshotError> {
        let current = self.revision();
        if revision > current {
            return Err(SnapshotError::Future { current });
        }
        self.keyspace(resource).snapshot_at(revision)
    }

    /// Creates or replaces an object. `object` gets the new revision.
    pub fn put(
        &self,
        resource: &GroupResource,
        key: &str,
        expect: Expect,
        object: Value,
    ) -> Result<Arc<Stored>, CommitError> {
        let keyspace = self.keyspace(resource);
        let _writer = self.writer.lock();
        keyspace.check(key, expect)?;
        let revision = self.next_revision();
        let stored = Arc::new(Stored::new(object, revision));
        keyspace.insert(key.into(), stored.clone());
        self.publish(&keyspace, revision);
        Ok(stored)
    }

    /// Removes an object. Returns its last state with the revision of the
    /// removal, as DELETED events show it.
    pub fn remove(
        &self,
        resource: &GroupResource,
        key: &str,
        expect: Expect,
    ) -> Result<Arc<Stored>, CommitError> {
        let keyspace = self.keyspace(resource);
        let _writer = self.writer.lock();
        keyspace.check(key, expect)?;
        let revision = self.next_revision();
        let removed = keyspace.remove(key, revision).ok_or(CommitError::Missing)?;
        self.publish(&keyspace, revision);
        Ok(removed)
    }

    /// Forgets a resource. Its watchers read their logs to the end, and close.
    pub fn drop_resource(&self, resource: &GroupResource) {
        if let Some(keyspace) = self.keyspaces.write().remove(resource) {
            keyspace.close();
        }
    }

    /// Returns the next revision. The caller must hold the writer's lock.
    /// Writes are too few to reach the end.
    fn next_revision(&self) -> u64 {
        self.revision().saturating_add(1)
    }

    fn publish(&self, keyspace: &Keyspace, revision: u64) {
        self.revision.store(revision, Ordering::Release);
        keyspace.wake(revision);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pods() -> GroupResource {
        GroupResource {
            group: String::new(),
            resource: "pods".into(),
        }
    }

    fn object(name: &str) -> Value {
        json!({"metadata": {"name": name}})
    }

    #[test]
    fn writes_are_versioned_and_guarded() {
        let storage = Storage::new(8);
        let a = storage
            .put(&pods(), "d/a", Expect::Absent, object("a"))
            .unwrap();
        assert_eq!(a.revision, 2);
        assert_eq!(a.value["metadata"]["resourceVersion"], "2");
        assert_eq!(
            storage
                .put(&pods(), "d/a", Expect::Absent, object("a"))
                .err(),
            Some(CommitError::Exists)
        );
        assert_eq!(
            storage
                .put(&pods(), "d/a", Expect::Revision(1), object("a"))
                .err(),
            Some(CommitError::Changed)
        );
        let gone = storage.remove(&pods(), "d/a", Expect::Revision(2)).unwrap();
        assert_eq!(gone.value["metadata"]["resourceVersion"], "3");
        assert_eq!(
            storage.remove(&pods(), "d/a", Expect::Revision(3)).err(),
            Some(CommitError::Missing)
        );
        assert_eq!(storage.revision(), 3);
    }

    #[test]
    fn order_is_that_of_the_joined_key() {
        let storage = Storage::new(8);
        for key in ["kube/x", "kube-system/a", "a/b", "a-b/c"] {
            storage
                .put(&pods(), key, Expect::Absent, object(key))
                .unwrap();
        }
        let keys: Vec<String> = storage
            .snapshot(&pods())
            .objects
            .keys()
            .map(|k| k.to_string())
            .collect();
        assert_eq!(keys, ["a-b/c", "a/b", "kube-system/a", "kube/x"]);
    }

    #[test]
    fn old_states_stay_until_history_forgets_them() {
        let storage = Storage::new(2);
        for name in ["a", "b", "c"] {
            storage
                .put(&pods(), name, Expect::Absent, object(name))
                .unwrap();
        }
        let len = |revision| {
            storage
                .snapshot_at(&pods(), revision)
                .map(|s| s.objects.len())
        };
        assert_eq!(len(4), Ok(3));
        assert_eq!(len(3), Ok(2));
        assert_eq!(len(2), Ok(1));
        assert_eq!(len(1), Err(SnapshotError::TooOld));
        assert_eq!(len(9), Err(SnapshotError::Future { current: 4 }));

        let keyspace = storage.keyspace(&pods());
        let names = |after| {
            keyspace
                .events_after(after, 10)
                .map(|events| events.iter().map(|e| e.key.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(names(2).unwrap(), ["b", "c"]);
        assert_eq!(names(4).unwrap(), Vec::<String>::new());
        assert_eq!(names(1), Err(TooOld { oldest: 3 }));
    }
}
