//! A store's state as it is saved: an earlier state, and the events that lead from
//! it to the newest. A store that is made from it has the same history, so watches
//! can resume from it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use super::{
    Cursor, Event, Gathered, ObjectKey, Resource, Snapshot, Store, StoreWriter, StoredObject,
};

#[derive(Debug)]
pub(crate) struct SavedState {
    /// The state before the events.
    pub(crate) base: Snapshot,
    /// The events, oldest first. The version of each is that of its object.
    pub(crate) events: Vec<Arc<Event>>,
    /// The newest version.
    pub(crate) resource_version: u64,
    /// The end of the log. It shows whether events came since.
    pub(crate) cursor: Cursor,
}

/// An event that is read back.
#[derive(Debug)]
pub(crate) struct SavedEvent {
    pub(crate) deleted: bool,
    pub(crate) object: StoredObject,
    pub(crate) recorded_at: Instant,
}

impl Store {
    /// Returns the newest state and the history that can be saved. History up to the
    /// last resync is left out: its events alone do not show which versions the
    /// resync skipped.
    pub(crate) fn saved_state(&self) -> SavedState {
        let (current, mut since, mut events) = {
            // Nothing is published meanwhile, so that state and log agree.
            let _publishing = self.publishing.lock();
            let log = self.log.read();
            let looks = self.earlier.lock().looks_since();
            let (since, events) = log.tail(looks);
            (self.snapshot(), since, events)
        };
        // An event whose version is not its object's could not be read back.
        let odd = |e: &Arc<Event>| e.resource_version != e.object.resource_version;
        if let Some(at) = events.iter().rposition(odd) {
            let rest = events.split_off(at.saturating_add(1));
            since = events.last().map_or(since, |e| e.resource_version);
            events = rest;
        }
        // The oldest event of each object holds its earlier state.
        let mut before: HashMap<ObjectKey, Option<Arc<StoredObject>>> = HashMap::new();
        for event in &events {
            before
                .entry(event.object.key.clone())
                .or_insert_with(|| event.previous.clone());
        }
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for (key, object) in before {
            match object {
                Some(object) => known.push(object),
                None => unknown.push(key),
            }
        }
        unknown.retain(|key| current.get(key.namespace(), key.name()).is_some());
        SavedState {
            base: current.with(since, known, unknown),
            events,
            resource_version: current.resource_version,
            cursor: current.cursor,
        }
    }

    /// Makes a store from the objects at version `since` and the events that lead
    /// from there to `resource_version`.
    pub(crate) fn resume(
        resource: Resource,
        objects: Gathered,
        since: u64,
        events: Vec<SavedEvent>,
        resource_version: u64,
        now: Instant,
    ) -> (StoreWriter, Arc<Self>) {
        let (writer, store) = Self::from_gathered(resource, objects, since);
        for event in events {
            writer.apply_object(event.deleted, event.object, event.recorded_at);
        }
        writer.advance(resource_version, now);
        // Upstream has not said anything to this store yet.
        *store.heard.lock() = None;
        (writer, store)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::store::KeyScope;
    use crate::store::tests::resource;

    fn object(name: &str, version: u64) -> StoredObject {
        let item = format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"n","uid":"{name}","resourceVersion":"{version}"}}}}"#
        );
        StoredObject::parse(Bytes::from(item), &resource().fields).unwrap()
    }

    fn keys(snapshot: &Snapshot) -> Vec<String> {
        let told = |o: &Arc<StoredObject>| format!("{}@{}", o.key.name(), o.resource_version);
        snapshot.iter(&KeyScope::All).map(told).collect()
    }

    fn history(store: &Store, from: u64) -> Option<Vec<String>> {
        let mut cursor = store.position(from).ok()?;
        let events = store.read(&mut cursor, usize::MAX).ok()?;
        let told = |e: &Arc<Event>| {
            let before = e.previous.as_ref().map_or(0, |o| o.resource_version);
            format!(
                "{:?} {}@{before}→{}",
                e.change,
                e.object.key.name(),
                e.resource_version
            )
        };
        Some(events.iter().map(told).collect())
    }

    /// Saves the state and makes a store of it.
    fn again(store: &Store) -> Arc<Store> {
        let saved = store.saved_state();
        let copy = |o: &StoredObject| {
            let item = o.json(&resource().envelope).unwrap();
            StoredObject::parse(item, &resource().fields).unwrap()
        };
        let objects = saved.base.iter(&KeyScope::All).map(|o| copy(o)).collect();
        let events = saved.events.iter().map(|e| SavedEvent {
            deleted: e.change == crate::store::Change::Deleted,
            object: copy(&e.object),
            recorded_at: e.recorded_at,
        });
        let (_, store) = Store::resume(
            resource(),
            objects,
            saved.base.resource_version,
            events.collect(),
            saved.resource_version,
            Instant::now(),
        );
        store
    }

    fn written() -> (StoreWriter, Arc<Store>) {
        let now = Instant::now();
        let (writer, store) = Store::new(resource(), vec![object("a", 3), object("b", 4)], 10);
        writer.apply_object(false, object("a", 11), now);
        writer.apply_object(false, object("c", 12), now);
        writer.apply_object(true, object("b", 13), now);
        writer.apply_object(false, object("a", 15), now);
        writer.apply_object(true, object("c", 16), now);
        writer.advance(20, now);
        (writer, store)
    }

    #[test]
    fn a_resumed_store_has_the_same_state_and_history() {
        let (_, store) = written();
        assert_eq!(keys(&store.saved_state().base), ["a@3", "b@4"]);
        let resumed = again(&store);
        assert_eq!(keys(&resumed.snapshot()), ["a@15"]);
        assert_eq!(resumed.progress(), store.progress());
        assert_eq!(resumed.heard_at(), None);
        for from in 9..22 {
            assert_eq!(history(&resumed, from), history(&store, from), "{from}");
        }
        assert_eq!(history(&resumed, 9), None);
        for version in 10..=20 {
            let state = |s: &Store| s.snapshot_at(version).map(|s| keys(&s));
            assert_eq!(state(&resumed), state(&store), "{version}");
        }
        assert_eq!(keys(&again(&resumed).snapshot()), ["a@15"]);
    }

    /// A resync shows only the result of the changes within it.
    #[test]
    fn history_begins_after_the_last_resync() {
        let (writer, store) = written();
        let now = Instant::now() + Duration::from_secs(1);
        writer.replace(vec![object("a", 15), object("d", 25)], 30, now);
        writer.apply_object(false, object("e", 31), now);
        let resumed = again(&store);
        assert_eq!(keys(&resumed.snapshot()), ["a@15", "d@25", "e@31"]);
        assert_eq!(history(&resumed, 30).unwrap(), ["Added e@0→31"]);
        assert_eq!(history(&resumed, 29), None);
        let (writer, one) = Store::new(resource(), vec![object("b", 4)], 10);
        writer.replace(vec![], 11, now);
        assert!(keys(&again(&one).snapshot()).is_empty());
    }

    /// A changed CustomResourceDefinition changes objects without a version.
    #[test]
    fn states_that_looked_different_are_left_out() {
        let (writer, store) = written();
        let item = r#"{"metadata":{"name":"a","namespace":"n","uid":"a","resourceVersion":"15"},"data":{}}"#;
        let other = StoredObject::parse(Bytes::from(item), &resource().fields).unwrap();
        writer.replace(vec![other], 21, Instant::now());
        let resumed = again(&store);
        assert_eq!(resumed.snapshot_at(20).map(|s| keys(&s)), None);
        assert_eq!(store.snapshot_at(20).map(|s| keys(&s)), None);
        assert_eq!(keys(&resumed.snapshot()), ["a@15"]);
    }
}
