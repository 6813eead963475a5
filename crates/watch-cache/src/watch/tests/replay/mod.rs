//! Tests random histories and random watchers: a watcher's events must add up
//! to the state.

mod client;
mod step;

use super::super::{Watch, WatchEnd, WatchGroups};
use super::*;

use std::mem;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use futures::FutureExt;
use parking_lot::Mutex;
use proptest::prelude::*;
use tokio::runtime::Runtime;
use tokio::sync::watch::Receiver;

use client::Client;
use step::{APPS, FILTERS, How, NAMES, NAMESPACES, NODES, Selects, Step, step};

type State = BTreeMap<String, Pod>;

struct World {
    writer: StoreWriter,
    store: Arc<Store>,
    /// All of upstream's states, oldest first.
    history: Vec<(u64, State)>,
    /// Changes not yet sent to the store: the object, and whether it was
    /// deleted.
    unsent: Vec<(bool, Pod)>,
    connected: bool,
    uids: u64,
    /// The gaps in the store's history. The store does not know the events
    /// between the two versions of a gap.
    gaps: Vec<(u64, u64)>,
    floor: u64,
    now: Instant,
    watchers: Vec<Watcher>,
    groups: Arc<WatchGroups>,
    stopping: Receiver<bool>,
    runtime: Runtime,
}

enum Held {
    Own(Box<Watch>),
    InGroup(Arc<Mutex<Client>>),
}

struct Watcher {
    watch: Held,
    filter: Selects,
    /// The versions of objects by key, as the client knows them.
    believes: BTreeMap<String, u64>,
    /// The client's resourceVersion. `None` until initial events have ended.
    version: Option<u64>,
    /// Upstream has been restored since the watch began, so its history is
    /// gone.
    restored: bool,
}

impl World {
    fn new(runtime: Runtime) -> Self {
        let (writer, store) = Store::new(resource(), vec![], 10);
        Self {
            writer,
            store,
            history: vec![(10, State::new())],
            unsent: vec![],
            connected: true,
            uids: 0,
            gaps: vec![],
            floor: 10,
            now: Instant::now(),
            watchers: vec![],
            groups: Arc::default(),
            stopping: tokio::sync::watch::channel(false).1,
            runtime,
        }
    }

    /// Lets the groups' tasks do all that they can.
    fn settle(&self) {
        self.runtime.block_on(async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        });
    }

    fn in_group(&self, watcher: usize) -> Option<Arc<Mutex<Client>>> {
        let index = watcher.checked_rem(self.watchers.len())?;
        match &self.watchers[index].watch {
            Held::InGroup(client) => Some(client.clone()),
            Held::Own(_) => None,
        }
    }

    fn join(&mut self, index: usize) {
        while self.take(index) {}
        let watch = &mut self.watchers[index].watch;
        let client = Arc::new(Mutex::new(Client {
            has_room: true,
            ..Client::default()
        }));
        if let Held::Own(own) = &*watch
            && own.waits_for_events()
            && let Held::Own(own) = mem::replace(watch, Held::InGroup(client.clone()))
        {
            let _entered = self.runtime.enter();
            self.groups.join(own, Box::new(client), &self.stopping);
        }
    }

    fn version(&self) -> u64 {
        self.history.last().unwrap().0
    }

    fn state(&self) -> &State {
        &self.history.last().unwrap().1
    }

    fn run(&mut self, step: Step) {
        match step {
            Step::Set {
                key,
                app,
                node,
                skip,
            } => {
                let (namespace, name) = (NAMESPACES[key % 4], NAMES[key / 4]);
                let mut state = self.state().clone();
                let key = format!("{namespace}/{name}");
                let uid = state.get(&key).map_or_else(
                    || {
                        self.uids += 1;
                        self.uids
                    },
                    |pod| pod.uid,
                );
                let version = self.version() + 1 + skip;
                let pod = Pod {
                    uid,
                    app: APPS[app].map(str::to_owned),
                    node: NODES[node].to_owned(),
                    ..Pod::new(namespace, name, version)
                };
                state.insert(key, pod.clone());
                self.history.push((version, state));
                self.unsent.push((false, pod));
                self.send();
            }
            Step::Delete { key, skip } => {
                let key = format!("{}/{}", NAMESPACES[key % 4], NAMES[key / 4]);
                let mut state = self.state().clone();
                let Some(pod) = state.remove(&key) else {
                    return;
                };
                let version = self.version() + 1 + skip;
                self.history.push((version, state));
                self.unsent.push((true, Pod { version, ..pod }));
                self.send();
            }
            Step::Bookmark { skip } => {
                let version = self.version() + skip;
                let state = self.state().clone();
                self.history.push((version, state));
                if self.connected {
                    self.writer.advance(version, self.now);
                }
            }
            Step::Disconnect => self.connected = false,
            Step::Reconnect => {
                self.connected = true;
                self.send();
            }
            Step::Resync { skip } => {
                let state = self.state().clone();
                self.history.push((self.version() + skip, state));
                let seen = self.store.progress().resource_version;
                self.gaps.push((seen, self.version()));
                self.list();
            }
            Step::Restore { back } => {
                let at = self.history.len().saturating_sub(1 + back);
                let (version, state) = self.history[at].clone();
                if version >= self.store.progress().resource_version {
                    return;
                }
                self.history.truncate(at + 1);
                self.gaps.clear();
                self.floor = version;
                self.watchers.iter_mut().for_each(|w| w.restored = true);
                assert_eq!(self.version(), version);
                assert_eq!(self.state(), &state);
                self.list();
            }
            Step::Begin { how, filter } => self.begin(how, FILTERS[filter]),
            Step::Take { watcher } => {
                if self.watchers.is_empty() {
                    return;
                }
                let index = watcher % self.watchers.len();
                self.take(index);
            }
            Step::Join { watcher } => {
                if let Some(index) = watcher.checked_rem(self.watchers.len()) {
                    self.join(index);
                }
            }
            Step::Room { watcher, has } => {
                if let Some(client) = self.in_group(watcher) {
                    client.lock().has_room = has;
                }
            }
            Step::Resume { watcher } => {
                if self.watchers.is_empty() {
                    return;
                }
                let index = watcher % self.watchers.len();
                self.resume(index);
            }
        }
    }

    fn send(&mut self) {
        if self.connected {
            for (deleted, pod) in self.unsent.drain(..) {
                self.writer.apply(deleted, pod.item(), self.now).unwrap();
            }
        }
    }

    fn list(&mut self) {
        self.connected = true;
        self.unsent.clear();
        let listed = self.state().values().map(Pod::stored).collect();
        self.writer.replace(listed, self.version(), self.now);
    }

    fn initial(&self, filter: Selects) -> Watcher {
        let selected = options(super::filter(filter.0, filter.1, filter.2), HOUR);
        Watcher {
            watch: Held::Own(Box::new(watch_all(
                &self.store,
                self.store.snapshot(),
                selected,
            ))),
            filter,
            believes: BTreeMap::new(),
            version: None,
            restored: false,
        }
    }

    /// Begins a watch from `version` for a client that knows the objects in
    /// `believes`.
    fn from(
        &self,
        version: u64,
        believes: BTreeMap<String, u64>,
        filter: Selects,
    ) -> Option<Watcher> {
        let selected = options(super::filter(filter.0, filter.1, filter.2), HOUR);
        let began = watch_from(&self.store, version, selected);
        let lost = version < self.floor
            || self
                .gaps
                .iter()
                .any(|(seen, listed)| version < *listed && *listed > seen + 1);
        assert_eq!(began.is_err(), lost, "from {version}");
        Some(Watcher {
            watch: Held::Own(Box::new(began.ok()?)),
            filter,
            believes,
            version: Some(version),
            restored: false,
        })
    }

    fn begin(&mut self, how: How, filter: Selects) {
        let (version, state) = match how {
            How::InitialEvents => {
                let watcher = self.initial(filter);
                self.watchers.push(watcher);
                return;
            }
            How::CacheVersion => {
                let snapshot = self.store.snapshot();
                let all: Vec<_> = snapshot.iter(&crate::store::KeyScope::All).collect();
                let known = |object: &&&Arc<StoredObject>| {
                    let key = object.key.as_str();
                    let states = self.history.iter().rev();
                    let mut pods = states.filter_map(|(_, state)| state.get(key));
                    pods.any(|pod| pod.version == object.resource_version && (filter.3)(pod))
                };
                let believes = all
                    .iter()
                    .filter(known)
                    .map(|o| (o.key.as_str().to_owned(), o.resource_version))
                    .collect();
                let watcher = self.from(snapshot.resource_version, believes, filter);
                self.watchers.extend(watcher);
                return;
            }
            How::UpstreamVersion { back } => {
                let at = self.history.len().saturating_sub(1 + back);
                &self.history[at]
            }
        };
        let believes = state
            .iter()
            .filter(|(_, pod)| (filter.3)(pod))
            .map(|(key, pod)| (key.clone(), pod.version))
            .collect();
        let watcher = self.from(*version, believes, filter);
        self.watchers.extend(watcher);
    }

    /// Takes the watcher's next batch. Returns false if there was none.
    fn take(&mut self, index: usize) -> bool {
        if self.in_group(index).is_some() {
            return self.take_from_group(index);
        }
        let watcher = &mut self.watchers[index];
        let Held::Own(watch) = &mut watcher.watch else {
            unreachable!("not in a group");
        };
        let _entered = self.runtime.enter();
        match watch.next().now_or_never() {
            None => false,
            Some(Ok((bytes, events))) => {
                let seen = decode(&bytes);
                assert_eq!(seen.len(), events);
                seen.iter().for_each(|seen| watcher.hear(seen));
                true
            }
            Some(Err(end)) => {
                assert_eq!(end, WatchEnd::FellBehind);
                let unsure = |v: u64| self.gaps.iter().any(|(s, l)| *s < v && v < *l);
                assert!(watcher.restored || watcher.version.is_some_and(unsure));
                let filter = watcher.filter;
                self.watchers[index] = self.initial(filter);
                true
            }
        }
    }

    fn take_from_group(&mut self, index: usize) -> bool {
        self.settle();
        let watcher = &mut self.watchers[index];
        let Held::InGroup(client) = &watcher.watch else {
            return false;
        };
        let (frames, back) = {
            let client = &mut *client.lock();
            (mem::take(&mut client.frames), client.back.take())
        };
        for seen in frames.iter().flat_map(|frame| decode(frame)) {
            watcher.hear(&seen);
        }
        let took = !frames.is_empty() || back.is_some();
        if let Some(watch) = back {
            watcher.watch = Held::Own(watch);
        }
        took
    }

    fn resume(&mut self, index: usize) {
        if let Some(client) = self.in_group(index) {
            let waker = {
                let client = &mut *client.lock();
                client.gone = true;
                client.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
            self.settle();
            let client = client.lock();
            assert!(client.ended || client.back.is_some());
        }
        let watcher = &self.watchers[index];
        let filter = watcher.filter;
        let resumed = match watcher.version {
            Some(version) if !watcher.restored => {
                self.from(version, watcher.believes.clone(), filter)
            }
            _ => None,
        };
        self.watchers[index] = resumed.unwrap_or_else(|| self.initial(filter));
    }

    fn finish(mut self) {
        self.connected = true;
        self.send();
        self.writer.advance(self.version(), self.now);
        let store: Vec<(String, u64)> = self
            .store
            .snapshot()
            .iter(&crate::store::KeyScope::All)
            .map(|o| (o.key.as_str().to_owned(), o.resource_version))
            .collect();
        let truth: Vec<_> = self
            .state()
            .iter()
            .map(|(k, p)| (k.clone(), p.version))
            .collect();
        assert_eq!(store, truth);
        for index in 0..self.watchers.len() {
            while self.take(index) {}
            let watcher = &self.watchers[index];
            let truth: BTreeMap<_, _> = self
                .state()
                .iter()
                .filter(|(_, pod)| (watcher.filter.3)(pod))
                .map(|(key, pod)| (key.clone(), pod.version))
                .collect();
            assert_eq!(watcher.believes, truth, "{:?}", &watcher.filter.1);
        }
    }
}

impl Watcher {
    fn hear(&mut self, seen: &Seen) {
        let key = format!("{}/{}", seen.namespace, seen.name);
        if seen.kind == "BOOKMARK" {
            assert!(self.version.is_none_or(|v| v <= seen.version));
            assert_eq!(self.version.is_none(), seen.ends_initial);
            self.version = Some(seen.version);
            return;
        }
        if let Some(version) = &mut self.version {
            assert!(*version < seen.version, "{} after {version}", seen.line);
            *version = seen.version;
        } else {
            assert_eq!(seen.kind, "ADDED");
            let last = self.believes.last_key_value();
            assert!(
                last.is_none_or(|(last, _)| *last < key),
                "order: {}",
                seen.line
            );
        }
        let before = match seen.kind.as_str() {
            "DELETED" => self.believes.remove(&key),
            _ => self.believes.insert(key, seen.version),
        };
        assert_eq!(before.is_some(), seen.kind != "ADDED", "{}", seen.line);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn watchers_end_up_with_the_truth(steps in proptest::collection::vec(step(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let mut world = World::new(runtime);
        for step in steps {
            world.run(step);
        }
        world.finish();
    }
}
