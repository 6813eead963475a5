//! Compares the store with a model that keeps every state it ever had.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::{Encoding, Envelope, Form};
use proptest::prelude::*;

use super::retained_snapshots::{RETAINED_BYTES, RETENTION};
use super::*;

/// Items in JSON by key.
type State = BTreeMap<String, Bytes>;

const NAMESPACES: [&str; 3] = ["a", "a-b", "b"];

#[derive(Clone, Debug)]
enum Step {
    Put {
        name: usize,
        padding: usize,
    },
    Delete {
        name: usize,
    },
    /// Puts many objects in a row, so that leaves split.
    Grow {
        from: usize,
        count: usize,
    },
    Shrink {
        from: usize,
        count: usize,
    },
    Advance {
        by: u64,
    },
    /// Changes that only a new list shows. `looks` changes every object's
    /// bytes.
    Resync {
        changes: Vec<(usize, bool)>,
        looks: bool,
    },
    Restore {
        back: u64,
    },
    /// Lists the current or an old state, which joins its leaves.
    List {
        old: bool,
    },
    /// Holds on to the current state.
    Hold,
    Retain {
        back: u64,
    },
    Trim {
        bytes: usize,
    },
    Sleep {
        seconds: u64,
    },
    Range {
        scope: usize,
        start: usize,
    },
    At {
        back: u64,
    },
    Beside {
        changes: Vec<(usize, bool)>,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let name = 0..400usize;
    let changes = || proptest::collection::vec((0..400usize, any::<bool>()), 0..40);
    prop_oneof![
        8 => (name.clone(), 0..300usize).prop_map(|(name, padding)| Step::Put { name, padding }),
        5 => name.clone().prop_map(|name| Step::Delete { name }),
        2 => (name.clone(), 1..120usize).prop_map(|(from, count)| Step::Grow { from, count }),
        2 => (name.clone(), 1..120usize).prop_map(|(from, count)| Step::Shrink { from, count }),
        1 => (1..5u64).prop_map(|by| Step::Advance { by }),
        1 => (changes(), prop::bool::weighted(0.1))
            .prop_map(|(changes, looks)| Step::Resync { changes, looks }),
        1 => (1..50u64).prop_map(|back| Step::Restore { back }),
        4 => prop::bool::weighted(0.3).prop_map(|old| Step::List { old }),
        2 => Just(Step::Hold),
        2 => (0..300u64).prop_map(|back| Step::Retain { back }),
        2 => (0..60_000usize).prop_map(|bytes| Step::Trim { bytes }),
        1 => (0..200u64).prop_map(|seconds| Step::Sleep { seconds }),
        3 => (0..4usize, name).prop_map(|(scope, start)| Step::Range { scope, start }),
        6 => (0..400u64).prop_map(|back| Step::At { back }),
        1 => changes().prop_map(|changes| Step::Beside { changes }),
    ]
}

struct Model {
    writer: StoreWriter,
    store: Arc<Store>,
    now: Instant,
    version: u64,
    uid: u64,
    current: State,
    /// The state from each version on, for this history only.
    states: BTreeMap<u64, State>,
    retained: BTreeMap<u64, Instant>,
    /// The version since which objects look as they do.
    looks_since: u64,
    held: Vec<(Arc<Snapshot>, State)>,
}

fn key_of(name: usize) -> (&'static str, String, String) {
    let namespace = NAMESPACES[name % NAMESPACES.len()];
    let name = format!("n{name:03}");
    let key = format!("{namespace}/{name}");
    (namespace, name, key)
}

fn item(name: usize, uid: u64, version: u64, padding: usize) -> Bytes {
    let (namespace, name, _) = key_of(name);
    let padding = "x".repeat(padding);
    Bytes::from(format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{version}"}},"data":"{padding}"}}"#
    ))
}

fn json(object: &StoredObject) -> Bytes {
    object.json(&resource().envelope).unwrap()
}

pub(crate) fn resource() -> Resource {
    let gvr = GroupVersionResource::new("", "v1", "configmaps");
    Resource {
        fields: field_table(&gvr),
        gvr,
        namespaced: true,
        envelope: Envelope::new(Form::Struct, "v1", "ConfigMap", "ConfigMapList"),
        bookmark: OnceLock::new(),
    }
}

pub(crate) fn object() -> Arc<StoredObject> {
    Arc::new(parse(&item(1, 1, 1, 0)))
}

fn parse(item: &Bytes) -> StoredObject {
    StoredObject::parse(item.clone(), &resource().fields).unwrap()
}

fn gathered(state: &State) -> Gathered {
    let mut gatherer = Gatherer::default();
    state.values().for_each(|item| gatherer.push(parse(item)));
    gatherer.finish()
}

impl Model {
    fn new() -> Self {
        Self::listed(0)
    }

    /// Begins with a list of this many objects.
    fn listed(count: usize) -> Self {
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

    fn put(&mut self, name: usize, padding: usize) {
        self.version += 1;
        let (.., key) = key_of(name);
        let uid = self.uid_of(&key);
        let item = item(name, uid, self.version, padding);
        self.writer.apply(false, item.clone(), self.now).unwrap();
        self.current.insert(key, item);
        self.states.insert(self.version, self.current.clone());
    }

    fn delete(&mut self, name: usize) {
        self.version += 1;
        let (.., key) = key_of(name);
        let uid = self.uid_of(&key);
        let item = item(name, uid, self.version, 0);
        self.writer.apply(true, item, self.now).unwrap();
        self.current.remove(&key);
        self.states.insert(self.version, self.current.clone());
    }

    /// Returns the uid of the object with this name, or a new one.
    fn uid_of(&mut self, key: &str) -> u64 {
        let known = self.current.get(key).map(parse);
        known.map_or_else(
            || {
                self.uid += 1;
                self.uid
            },
            |object| object.uid().parse().unwrap(),
        )
    }

    fn changed(&mut self, changes: &[(usize, bool)], looks: bool) -> State {
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

    fn run(&mut self, step: Step) {
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

    fn replace(&mut self, state: State) {
        let (listed, version) = (gathered(&state), self.version);
        self.writer.replace_gathered(listed, version, self.now);
        self.current = state;
        self.states.insert(self.version, self.current.clone());
    }

    fn check_range(&self, scope: &KeyScope, start: &str) {
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

    fn check_at(&self, version: u64) {
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
    fn check_buffers(&self) {
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
fn check(snapshot: &Snapshot, state: &State) {
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
        }
    }
}

#[test]
fn retained_states_outlive_the_history_within_their_budget() {
    let mut model = Model::new();
    for name in 0..100 {
        model.put(name, 100);
    }
    let first = model.version;
    let snapshot = model.store.snapshot();
    model.store.retain(&snapshot, model.now);
    drop(snapshot);
    assert_eq!(model.store.memory().retained, 0, "all of it is current");
    for name in 0..100 {
        model.put(name, 100);
    }
    assert_eq!(model.store.memory().retained, 0, "the history holds it");
    model
        .writer
        .trim_history(0, model.now + Duration::from_secs(1));
    let memory = model.store.memory();
    assert_eq!((memory.history, memory.snapshots), (0, 1));
    let kept = model.store.snapshot_at(first).unwrap();
    assert_eq!(memory.retained, kept.bytes());
    drop(kept);
    assert!(model.store.snapshot_at(first + 1).is_none());

    model.now += RETENTION;
    model.put(0, 100);
    assert!(model.store.snapshot_at(first).is_none());
    assert_eq!(model.store.memory().retained, 0);
}

#[test]
fn the_oldest_retained_states_go_first() {
    let mut model = Model::new();
    let mut retained = vec![];
    // 80 states of an object of 1 MiB.
    for _ in 0..80 {
        model.put(1, 1 << 20);
        let snapshot = model.store.snapshot();
        model.store.retain(&snapshot, model.now);
        model
            .writer
            .trim_history(0, model.now + Duration::from_secs(1));
        retained.push(model.version);
    }
    model.put(1, 0);
    model
        .writer
        .trim_history(0, model.now + Duration::from_secs(1));
    model.writer.advance(model.version + 1, model.now);
    let kept: Vec<_> = retained
        .iter()
        .map(|version| model.store.snapshot_at(*version).is_some())
        .collect();
    assert!(kept.is_sorted());
    let number = kept.iter().filter(|kept| **kept).count();
    assert!((62..=64).contains(&number), "{number}");
    assert!(model.store.memory().retained <= RETAINED_BYTES);
}

/// Reads lists while objects change: memory stays near that of the objects, and
/// every list is a consistent state, whichever reader joins leaves and at
/// whatever time.
#[test]
fn joining_and_changing_at_once() {
    let objects = (0..300).map(|name| parse(&item(name, 1, 5, 200)));
    let (writer, store) = Store::new(resource(), objects.collect(), 1000);
    let writing = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                while writing.load(std::sync::atomic::Ordering::Relaxed) {
                    let snapshot = store.snapshot();
                    let mut newest = 0;
                    for part in snapshot.parts(&KeyScope::All, "") {
                        let Part::Leaf(leaf) = part else { continue };
                        let items: Vec<_> = leaf.objects().iter().map(|o| json(o)).collect();
                        if let Some(joined) = leaf.joined(Encoding::Json, &resource().envelope) {
                            let expected = items.iter().flat_map(|i| [&b","[..], i]);
                            assert_eq!(joined, expected.collect::<Vec<_>>().concat());
                        }
                        let versions = leaf.objects().iter().map(|o| o.resource_version);
                        newest = newest.max(versions.max().unwrap_or(0));
                    }
                    assert!(newest <= snapshot.resource_version);
                }
            });
        }
        for version in 1001..3000 {
            let name = version as usize * 7919 % 350;
            let item = item(name, 1, version, 200);
            writer
                .apply(version % 9 == 0, item, Instant::now())
                .unwrap();
        }
        writing.store(false, std::sync::atomic::Ordering::Relaxed);
    });
    let snapshot = store.snapshot();
    let current: HashMap<_, _> = snapshot
        .iter(&KeyScope::All)
        .map(|o| (Arc::as_ptr(o), ()))
        .collect();
    let mut cursor = store.position(1000).unwrap();
    for event in store.read(&mut cursor, usize::MAX).unwrap() {
        for object in event.previous.iter().chain([&event.object]) {
            let is_current = current.contains_key(&Arc::as_ptr(object));
            assert!(is_current || object.buffer().is_none());
        }
    }
    let memory = store.memory();
    assert!(memory.objects <= 2 * snapshot.bytes(), "{memory:?}");
}

#[test]
fn what_leaves_are_made_into_is_counted_and_shed() {
    struct Copy(Vec<u8>);
    impl Derived for Copy {
        fn size(&self) -> usize {
            self.0.len()
        }
    }
    let mut model = Model::new();
    for name in 0..100 {
        model.put(name, 100);
    }
    let derive = || {
        let snapshot = model.store.snapshot();
        let mut made = 0;
        for leaf in snapshot.objects.leaves() {
            leaf.derived(|leaf| {
                made += 1;
                leaf.joined(Encoding::Json, &resource().envelope)
                    .map(|joined| Copy(joined.to_vec()))
            });
        }
        made
    };
    let leaves = model.store.snapshot().objects.leaves().count();
    assert_eq!((derive(), derive()), (leaves, 0));
    let items: usize = model.current.values().map(|item| item.len() + 1).sum();
    assert_eq!(model.store.memory().derived, items);
    model.writer.shed_derived();
    assert_eq!(model.store.memory().derived, 0);
    assert_eq!(derive(), leaves);
    // A changed leaf drops the values made from it.
    let old = model.store.snapshot();
    model.put(3, 100);
    assert!(model.store.memory().derived < items);
    model.writer.shed_derived();
    let retired = old
        .objects
        .leaves()
        .filter(|leaf| leaf.joined(Encoding::Json, &resource().envelope).is_none());
    assert_eq!(retired.count(), 1);
}
