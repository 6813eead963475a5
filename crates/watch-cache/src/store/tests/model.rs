//! Compares the store with a model that keeps every state it ever had.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kubernetes_wire::representation::Encoding;
use proptest::prelude::*;

use super::super::retained_snapshots::RETENTION;
use super::super::*;
use super::step::{Step, step};
use super::*;

pub(super) struct Model {
    pub(super) writer: StoreWriter,
    pub(super) store: Arc<Store>,
    pub(super) now: Instant,
    pub(super) version: u64,
    pub(super) uid: u64,
    pub(super) current: State,
    /// The state from each version on, for this history only.
    pub(super) states: BTreeMap<u64, State>,
    pub(super) retained: BTreeMap<u64, Instant>,
    /// The version since which objects look as they do.
    pub(super) looks_since: u64,
    pub(super) held: Vec<(Arc<Snapshot>, State)>,
}

impl Model {
    pub(super) fn new() -> Self {
        Self::listed(0)
    }

    /// Begins with a list of this many objects.
    pub(super) fn listed(count: usize) -> Self {
        let version = 1000;
        let objects = (0..count).map(|n| (key_of(n).2, item(n, n as u64, 1 + n as u64, 3_000)));
        let current: State = objects.collect();
        let (writer, store) = Store::from_gathered(resource(), gathered(&current), version);
        Self {
            writer,
            store,
            now: Instant::now(),
            version,
            uid: count as u64,
            current: current.clone(),
            states: BTreeMap::from([(version, current)]),
            retained: BTreeMap::new(),
            looks_since: 0,
            held: vec![],
        }
    }

    pub(super) fn put(&mut self, name: usize, padding: usize) {
        self.version += 1;
        let (.., key) = key_of(name);
        let uid = self.uid_of(&key);
        let item = item(name, uid, self.version, padding);
        self.writer.apply(false, item.clone(), self.now).unwrap();
        self.current.insert(key, item);
        self.states.insert(self.version, self.current.clone());
    }

    pub(super) fn delete(&mut self, name: usize) {
        self.version += 1;
        let (.., key) = key_of(name);
        let uid = self.uid_of(&key);
        let item = item(name, uid, self.version, 0);
        self.writer.apply(true, item, self.now).unwrap();
        self.current.remove(&key);
        self.states.insert(self.version, self.current.clone());
    }

    /// Returns the uid of the object with this name, or a new one.
    pub(super) fn uid_of(&mut self, key: &str) -> u64 {
        let known = self.current.get(key).map(parse);
        known.map_or_else(
            || {
                self.uid += 1;
                self.uid
            },
            |object| object.uid().parse().unwrap(),
        )
    }

    pub(super) fn changed(&mut self, changes: &[(usize, bool)], looks: bool) -> State {
        let mut state = self.current.clone();
        if looks {
            for item in state.values_mut() {
                let text = std::str::from_utf8(item).unwrap();
                *item = Bytes::from(text.replace(r#""data""#, r#""other""#));
            }
        }
        for (name, gone) in changes {
            self.version += 1;
            let (.., key) = key_of(*name);
            if *gone {
                state.remove(&key);
            } else {
                self.uid += 1;
                state.insert(key, item(*name, self.uid, self.version, 20));
            }
        }
        state
    }

    pub(super) fn run(&mut self, step: Step) {
        match step {
            Step::Put { name, padding } => self.put(name, padding),
            Step::Delete { name } => self.delete(name),
            Step::Grow { from, count } => (from..from + count).for_each(|name| self.put(name, 9)),
            Step::Shrink { from, count } => (from..from + count).for_each(|n| self.delete(n)),
            Step::Advance { by } => {
                self.version += by;
                self.writer.advance(self.version, self.now);
                self.states.insert(self.version, self.current.clone());
            }
            Step::Resync { changes, looks } => {
                let seen = self.version;
                // These versions are for the deletions that only the list
                // shows.
                self.version += 500;
                let state = self.changed(&changes, looks);
                let looks = state.iter().any(|(key, item)| {
                    let known = self.current.get(key).filter(|known| *known != item);
                    known.is_some_and(|known| parse(known).is_version_of(&parse(item)))
                });
                if looks {
                    self.looks_since = self.version;
                }
                self.replace(state);
                let continued = self.store.position(seen).is_ok();
                assert!(continued, "a later list resets nothing");
            }
            Step::Restore { back } => {
                self.version -= back;
                let item_version = |item: &Bytes| parse(item).resource_version;
                self.current
                    .retain(|_, item| item_version(item) <= self.version);
                self.states.clear();
                self.retained.clear();
                self.looks_since = 0;
                let state = self.current.clone();
                self.replace(state);
            }
            Step::List { old } => {
                let held = self.held.last().filter(|_| old).map(|(s, _)| s.clone());
                let snapshot = held.unwrap_or_else(|| self.store.snapshot());
                for part in snapshot.parts(&KeyScope::All, "") {
                    let Part::Leaf(leaf) = part else {
                        panic!("all leaves are whole");
                    };
                    let items: Vec<_> = leaf.objects().iter().map(|o| json(o)).collect();
                    let commas = items.iter().flat_map(|item| [&b","[..], item]);
                    let expected = commas.collect::<Vec<_>>().concat();
                    match leaf.joined(Encoding::Json, &resource().envelope) {
                        Some(joined) => assert_eq!(joined, expected),
                        None => assert!(old),
                    }
                }
            }
            Step::Hold => {
                let snapshot = self.store.snapshot();
                self.held.push((snapshot, self.current.clone()));
                if self.held.len() > 4 {
                    self.held.remove(0);
                }
            }
            Step::Retain { back } => {
                let version = self.version.saturating_sub(back);
                if let Some(snapshot) = self.store.snapshot_at(version) {
                    self.store.retain(&snapshot, self.now);
                    let until = self.now + RETENTION;
                    self.retained.insert(version, until);
                }
            }
            Step::Trim { bytes } => {
                self.writer
                    .trim_history(bytes, self.now + Duration::from_secs(1));
                assert!(self.store.log.read().bytes() <= bytes);
                self.writer.shed_derived();
            }
            Step::Sleep { seconds } => {
                self.now += Duration::from_secs(seconds);
                self.writer.shed_unused();
                self.version += 1;
                self.writer.advance(self.version, self.now);
                self.states.insert(self.version, self.current.clone());
                self.retained.retain(|_, until| *until > self.now);
            }
            Step::Range { scope, start } => {
                let (.., start) = key_of(start);
                let namespace = NAMESPACES.get(scope).copied().unwrap_or_default();
                self.check_range(&KeyScope::from_namespace(namespace), &start);
                self.check_range(&KeyScope::from_namespace(namespace), "");
            }
            Step::At { back } => {
                // The version may be above the current one, too.
                let version = (self.version + 5).saturating_sub(back);
                self.check_at(version);
            }
            Step::Beside { changes } => {
                let (version, snapshot) = (self.version, self.store.snapshot());
                let state = self.changed(&changes, false);
                self.version = version;
                let upserts = state
                    .iter()
                    .filter(|(k, v)| self.current.get(*k) != Some(v));
                let upserts = upserts.map(|(_, v)| Arc::new(parse(v))).collect();
                let gone = self.current.keys().filter(|k| !state.contains_key(*k));
                let removals = gone.map(|key| {
                    let (namespace, name) = key.split_once('/').unwrap();
                    ObjectKey::new(namespace, name)
                });
                let beside = snapshot.with(version + 7, upserts, removals.collect());
                assert_eq!(beside.resource_version, version + 7);
                check(&beside, &state);
            }
        }
        check(&self.store.snapshot(), &self.current);
        self.check_buffers();
    }

    pub(super) fn replace(&mut self, state: State) {
        let (listed, version) = (gathered(&state), self.version);
        self.writer.replace_gathered(listed, version, self.now);
        self.current = state;
        self.states.insert(self.version, self.current.clone());
    }

    pub(super) fn check_range(&self, scope: &KeyScope, start: &str) {
        let snapshot = self.store.snapshot();
        let expected: Vec<_> = self
            .current
            .range(start.to_owned()..)
            .filter(|(key, _)| {
                let namespace = key.split_once('/').unwrap().0;
                *scope == KeyScope::All || *scope == KeyScope::Namespace(namespace.to_owned())
            })
            .map(|(_, item)| item.clone())
            .collect();
        let items: Vec<_> = snapshot.iter_from(scope, start).map(|o| json(o)).collect();
        assert_eq!(items, expected);
        assert_eq!(snapshot.count_from(scope, start), expected.len());
        let mut parts = vec![];
        for part in snapshot.parts(scope, start) {
            match part {
                Part::Leaf(leaf) => parts.extend(leaf.objects().iter().map(|o| json(o))),
                Part::Object(object) => parts.push(json(object)),
            }
        }
        assert_eq!(parts, expected);
    }

    pub(super) fn check_at(&self, version: u64) {
        let known = (self.looks_since..=self.version).contains(&version)
            && self.store.position(version).is_ok();
        let retained = self.retained.contains_key(&version);
        let Some(snapshot) = self.store.snapshot_at(version) else {
            assert!(!known && !retained, "{version}");
            return;
        };
        assert!(known || retained, "{version} of {}", self.version);
        assert_eq!(snapshot.resource_version, version);
        let (_, state) = self.states.range(..=version).next_back().unwrap();
        check(&snapshot, state);
        if known {
            assert_eq!(Ok(snapshot.cursor), self.store.position(version));
        }
    }

    /// Checks the buffers that objects share, and the unused bytes in them.
    pub(super) fn check_buffers(&self) {
        let mut live: HashMap<_, (usize, _)> = HashMap::new();
        let snapshot = self.store.snapshot();
        for object in snapshot.iter(&KeyScope::All) {
            if let Some(buffer) = object.buffer() {
                let entry = live.entry(Arc::as_ptr(&buffer)).or_insert((0, buffer));
                entry.0 += json(object).len();
            }
        }
        let mut stale = 0;
        for (used, buffer) in live.values() {
            assert_eq!(buffer.live(), *used, "only current objects share");
            stale += buffer.length() - used;
        }
        assert_eq!(self.store.memory().objects, snapshot.bytes() + stale);
    }
}

/// Asserts that a snapshot equals this state and is well-formed.
pub(super) fn check(snapshot: &Snapshot, state: &State) {
    let objects: Vec<_> = snapshot.iter(&KeyScope::All).collect();
    let keys = objects.iter().map(|o| o.key.as_str());
    assert!(keys.eq(state.keys().map(String::as_str)));
    assert!(
        objects
            .iter()
            .zip(state.values())
            .all(|(o, item)| json(o) == item)
    );
    assert_eq!(snapshot.len(), state.len());
    let bytes: usize = objects.iter().map(|o| o.size()).sum();
    assert_eq!(snapshot.bytes(), bytes);
    for object in objects.iter().step_by(7) {
        let found = snapshot.get(object.key.namespace(), object.key.name());
        assert!(Arc::ptr_eq(found.unwrap(), object));
    }
    assert!(snapshot.get("a", "nobody").is_none());
    let sizes: Vec<_> = snapshot
        .objects
        .leaves()
        .map(|l| l.objects().len())
        .collect();
    let alone = sizes.len() == 1;
    assert!(
        sizes
            .iter()
            .all(|n| (16..=64).contains(n) || alone && *n > 0),
        "{sizes:?}"
    );
}

/// Asserts that a difference leads from one state to the other, and names no object that
/// both share.
fn check_difference(before: &Snapshot, after: &Snapshot) {
    let objects = |snapshot: &Snapshot| -> BTreeMap<String, *const StoredObject> {
        let all = snapshot.iter(&KeyScope::All);
        all.map(|o| (o.key.as_str().to_owned(), Arc::as_ptr(o)))
            .collect()
    };
    let mut state = objects(before);
    let difference = after.difference(before);
    let keys = difference.iter().map(|d| {
        let object = d.before.as_ref().or(d.after.as_ref()).unwrap();
        object.key.as_str()
    });
    assert!(keys.is_sorted());
    for Differing { before, after } in &difference {
        assert!(before.as_ref().map(Arc::as_ptr) != after.as_ref().map(Arc::as_ptr));
        if let Some(before) = before {
            let gone = state.remove(before.key.as_str());
            assert_eq!(gone, Some(Arc::as_ptr(before)));
        }
        if let Some(after) = after {
            state.insert(after.key.as_str().to_owned(), Arc::as_ptr(after));
        }
    }
    assert_eq!(state, objects(after));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn every_state_is_that_of_the_model(
        listed in prop_oneof![Just(0), 1..150_usize],
        steps in proptest::collection::vec(step(), 1..80),
    ) {
        let mut model = Model::listed(listed);
        model.check_buffers();
        for step in steps {
            model.run(step);
        }
        for version in model.states.keys().step_by(5) {
            model.check_at(*version);
        }
        for (snapshot, state) in &model.held {
            check(snapshot, state);
            check_difference(snapshot, &model.store.snapshot());
            check_difference(&model.store.snapshot(), snapshot);
        }
    }
}
