//! The only writer of a store.

use std::sync::{Arc, Weak};
use std::time::Instant;

use bytes::Bytes;
use kubernetes_wire::representation::Envelope;

use super::object_tree::{Edit, Edited};
use super::replacement::Replacement;
use super::resync::Found;
use super::tree_leaf::Lineage;
use super::{
    Change, Event, Gathered, MalformedObject, Presentation, Resource, Snapshot, Store,
    StoredObject, publication,
};

/// Publishes the changes of one store. Each store has one writer, which
/// [`Store::new`] makes with it.
///
/// The writer does not keep the store. When no reader holds the store any more,
/// nobody can see a change, and the writer's calls do nothing.
#[derive(Debug)]
pub struct StoreWriter {
    store: Weak<Store>,
}

impl Store {
    /// Makes a store from a complete list at `resource_version`. Returns its only
    /// writer, and the handle that readers share.
    pub fn new(
        resource: Resource,
        objects: Vec<StoredObject>,
        resource_version: u64,
    ) -> (StoreWriter, Arc<Self>) {
        Self::from_gathered(resource, objects.into_iter().collect(), resource_version)
    }

    /// Does the same as [`new`](Self::new) with objects that share buffers.
    pub(crate) fn from_gathered(
        resource: Resource,
        objects: Gathered,
        resource_version: u64,
    ) -> (StoreWriter, Arc<Self>) {
        let store = Arc::new(Self::unwritten(resource, objects, resource_version));
        let writer = StoreWriter {
            store: Arc::downgrade(&store),
        };
        (writer, store)
    }
}

impl StoreWriter {
    /// Returns the store, if somebody still holds it.
    pub fn store(&self) -> Option<Arc<Store>> {
        self.store.upgrade()
    }

    /// Tells whether somebody holds the store.
    pub fn is_held(&self) -> bool {
        self.store.strong_count() > 0
    }

    /// Replaces the facts that answers show of the resource besides its objects.
    pub fn present(&self, presentation: Presentation) {
        if let Some(store) = self.store() {
            store.presentation.store(Arc::new(presentation));
        }
    }

    /// Applies one watch event of upstream. `item` is the object as a list item in
    /// JSON.
    pub fn apply(&self, deleted: bool, item: Bytes, now: Instant) -> Result<(), MalformedObject> {
        let Some(store) = self.store() else {
            return Ok(());
        };
        let object = StoredObject::parse(item, &store.resource.fields)?;
        store.apply_object(deleted, object, now);
        Ok(())
    }

    /// Applies one watch event of upstream. An event at or below the current
    /// version changes nothing: it was seen before.
    pub fn apply_object(&self, deleted: bool, object: StoredObject, now: Instant) {
        if let Some(store) = self.store() {
            store.apply_object(deleted, object, now);
        }
    }

    /// Notes that upstream has no further events up to `version`.
    pub fn advance(&self, version: u64, now: Instant) {
        if let Some(store) = self.store() {
            store.advance(version, now);
        }
    }

    /// Replaces the state by a list made at `version`. Watchers get the difference
    /// as events. If the list is not a later state of the same history, upstream was
    /// restored from a backup: the history and all watches then end here.
    pub fn replace(&self, listed: Vec<StoredObject>, version: u64, now: Instant) {
        self.replace_gathered(listed.into_iter().collect(), version, now);
    }

    /// Does the same as [`replace`](Self::replace) with objects that share buffers.
    pub(crate) fn replace_gathered(&self, listed: Gathered, version: u64, now: Instant) {
        if let Some(store) = self.store() {
            store.replace(listed, version, now);
        }
    }

    /// Ends every watch, because the resource is not served any more.
    pub fn close(&self) {
        if let Some(store) = self.store() {
            store.progress.send_modify(|p| p.closed = true);
            let log = store.log.read();
            log.topics.touch_all();
            log.topics.wake();
        }
    }
}

impl Store {
    fn apply_object(&self, deleted: bool, object: StoredObject, now: Instant) {
        *self.heard.lock() = Some(now);
        let mut publishing = self.publishing.lock();
        let current = self.published.load_full();
        if object.resource_version <= current.resource_version {
            return;
        }
        let version = object.resource_version;
        let previous = current.objects.get(object.key.as_str()).cloned();
        let change = match (deleted, &previous) {
            (true, None) => {
                // The object was never in the store: only the version advances.
                self.publish(&current, None, version, vec![], now);
                return;
            }
            (true, Some(_)) => Change::Deleted,
            (false, None) => Change::Added,
            (false, Some(_)) => Change::Modified,
        };
        let object = Arc::new(object);
        let edit = if change == Change::Deleted {
            Edit::Remove(object.key.clone())
        } else {
            Edit::Put(object.clone())
        };
        let edited = current.objects.edit(vec![edit], Lineage::Main);
        if let Some(stale) = publishing.fresh.replace(object.clone()) {
            stale.go_stale();
        }
        let event = Event::new(change, version, object, previous, now);
        self.publish(&current, Some(edited), version, vec![event], now);
    }

    fn advance(&self, version: u64, now: Instant) {
        *self.heard.lock() = Some(now);
        let _publishing = self.publishing.lock();
        let current = self.published.load_full();
        if version > current.resource_version {
            self.publish(&current, None, version, vec![], now);
        }
    }

    fn replace(&self, listed: Gathered, version: u64, now: Instant) {
        *self.heard.lock() = Some(now);
        let _publishing = self.publishing.lock();
        let current = self.published.load_full();
        let envelope = &self.resource.envelope;
        let Replacement {
            edits,
            found,
            changes_looks,
        } = Replacement::new(&current, listed.objects, version, envelope);
        let edited = current.objects.edit(edits, Lineage::Main);
        let Some(found) = found else {
            self.log.write().reset(version);
            self.earlier.lock().reset();
            self.publish(&current, Some(edited), version, vec![], now);
            return;
        };
        let found = found.into_iter();
        let events = found.map(|found| event(found, envelope, now)).collect();
        if changes_looks {
            self.earlier.lock().change_looks(version);
        }
        self.log.write().resync(current.resource_version, version);
        self.publish(&current, Some(edited), version, events, now);
    }

    fn publish(
        &self,
        current: &Snapshot,
        edited: Option<Edited>,
        version: u64,
        events: Vec<Event>,
        now: Instant,
    ) {
        let objects = match edited {
            Some(edited) => edited.succeed(),
            None => current.objects.clone(),
        };
        let count = events.len();
        publication::in_order(
            || {
                let mut log = self.log.write();
                for event in events {
                    log.append(Arc::new(event));
                }
                log.evict(now);
                (log.end(version), log.floor(), log.departed(), log.evicted())
            },
            |(cursor, floor, departed, evicted)| {
                let mut earlier = self.earlier.lock();
                let snapshot = Arc::new(Snapshot {
                    resource_version: version,
                    cursor,
                    objects,
                    epoch: earlier.epoch(),
                    departed,
                    foreign: 0,
                });
                earlier.pass(count, &snapshot);
                earlier.expire(now, floor, evicted);
                drop(earlier);
                self.published.store(snapshot);
            },
            || {
                self.progress.send_modify(|p| p.resource_version = version);
                self.log.read().topics.wake();
            },
        );
    }
}

/// Returns the event of a change that a resync found. A deleted object shows the
/// version of its deletion.
fn event(found: Found, envelope: &Envelope, now: Instant) -> Event {
    let Found {
        change,
        resource_version,
        object,
        previous,
    } = found;
    let object = match change {
        Change::Deleted => object
            .stamped(resource_version, envelope)
            .map_or(object, Arc::new),
        Change::Added | Change::Modified => object,
    };
    Event::new(change, resource_version, object, previous, now)
}
