//! The state at a reader's place in the log.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Cursor, Evicted, ObjectKey, Snapshot, Store};

impl Store {
    /// Returns the state that a reader knows after reading the log up to `place`,
    /// and its version. The state is right only for keys that it `concerns`. `None`
    /// while the log is ahead of the published snapshot, which lasts a moment.
    pub(crate) fn state_at(
        &self,
        place: Cursor,
        concerns: impl Fn(&ObjectKey) -> bool,
    ) -> Result<Option<(Arc<Snapshot>, u64)>, Evicted> {
        let (current, version, later) = {
            let log = self.log.read();
            let version = log.version_at(place)?;
            // With the log locked, the log reaches at least as far as this snapshot.
            let current = self.snapshot();
            if current.cursor.is_before(place) {
                return Ok(None);
            }
            let mut later = log.between(place, current.cursor);
            later.retain(|event| concerns(&event.object.key));
            (current, version, later)
        };
        if later.is_empty() {
            return Ok(Some((current, version)));
        }
        // The first event of each object shows its earlier state.
        let mut seen = HashSet::new();
        let (mut upserts, mut removals) = (Vec::new(), Vec::new());
        for event in &later {
            let key = &event.object.key;
            if seen.insert(key) {
                match &event.previous {
                    Some(previous) => upserts.push(previous.clone()),
                    None => removals.push(key.clone()),
                }
            }
        }
        let state = current.with(version, upserts, removals);
        Ok(Some((Arc::new(state), version)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use bytes::Bytes;

    use super::*;
    use crate::store::tests::resource;
    use crate::store::{KeyScope, StoredObject};

    fn item(name: &str, uid: &str, version: u64) -> Bytes {
        format!(r#"{{"metadata":{{"name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#)
            .into()
    }

    fn shown(state: &Snapshot) -> Vec<String> {
        let objects = state.iter(&KeyScope::All);
        objects
            .map(|o| format!("{} {} {}", o.key.name(), o.uid(), o.resource_version))
            .collect()
    }

    #[test]
    fn each_place_has_the_state_of_its_time() {
        let (writer, store) = Store::new(resource(), Vec::new(), 1);
        let now = Instant::now();
        let mut places = Vec::new();
        let note = |store: &Store, places: &mut Vec<_>| {
            let snapshot = store.snapshot();
            places.push((snapshot.cursor, snapshot.clone()));
        };
        note(&store, &mut places);
        for (deleted, name, uid, version) in [
            (false, "a", "1", 2),
            (false, "b", "2", 3),
            (false, "a", "1", 4),
            (true, "b", "2", 5),
            (false, "b", "3", 6),
            (true, "a", "1", 9),
        ] {
            writer
                .apply(deleted, item(name, uid, version), now)
                .unwrap();
            note(&store, &mut places);
        }
        // A resync finds a deletion, and a name that was taken again.
        let list = ["c 5 22", "b 6 25"].map(|text| {
            let parts: Vec<_> = text.split(' ').collect();
            let item = item(parts[0], parts[1], parts[2].parse().unwrap());
            StoredObject::parse(item, &store.resource.fields).unwrap()
        });
        writer.replace(list.into(), 30, now);
        note(&store, &mut places);
        for (place, snapshot) in &places {
            let (state, version) = store.state_at(*place, |_| true).unwrap().unwrap();
            assert_eq!(shown(&state), shown(snapshot));
            assert!(version <= snapshot.resource_version);
            let objects = snapshot.iter(&KeyScope::All);
            assert!(objects.map(|o| o.resource_version).all(|v| v <= version));
        }
        // Within the resync.
        let (mut cursor, _) = places[6];
        assert_eq!(store.read(&mut cursor, 1).unwrap()[0].resource_version, 10);
        let (state, version) = store.state_at(cursor, |_| true).unwrap().unwrap();
        assert_eq!((shown(&state), version), (vec![], 10));
    }

    #[test]
    fn what_the_log_has_lost_is_not_made_up() {
        let (writer, store) = Store::new(resource(), Vec::new(), 1);
        let place = store.snapshot().cursor;
        let now = Instant::now();
        writer.apply(false, item("a", "1", 2), now).unwrap();
        assert!(store.state_at(place, |_| true).is_ok());
        writer.trim_history(0, now + Duration::from_secs(1));
        assert!(store.state_at(place, |_| true).is_err());
        let (state, version) = store
            .state_at(store.snapshot().cursor, |_| true)
            .unwrap()
            .unwrap();
        assert_eq!((shown(&state).len(), version), (1, 2));
        // Another history.
        let place = store.snapshot().cursor;
        writer.replace(Vec::new(), 1, now);
        assert!(store.state_at(place, |_| true).is_err());
    }
}
