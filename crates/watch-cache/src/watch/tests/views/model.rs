//! Tests a random history of objects and of sets, with watchers that are slow,
//! break off and resume. The events of each must add up to what it may see, and
//! no watcher may be told of anything else.

use super::*;

use std::time::Instant;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::watch::{Sender, channel};

use super::super::super::{Step, Visibility, WatchEnd};
use crate::store::{KeyScope, ObjectKey, VisibleEntry};

const NAMESPACES: [&str; 6] = ["a", "a-b", "a.b", "a0", "b", "b-"];
const NAMES: [&str; 5] = ["x", "x-y", "x.y", "x0", "z"];

const SELECTORS: [(&str, &str); 6] = [
    ("", ""),
    ("app=1", ""),
    ("", "spec.nodeName=n1"),
    ("app!=2", "metadata.namespace=a"),
    ("", "metadata.name=x"),
    ("app=2", "spec.nodeName!=n1"),
];

/// The steps of one history.
const STEPS: usize = 600;

struct Watcher {
    watch: Watch,
    client: Client,
    form: Form,
    selector: usize,
    /// Upstream was restored since the watcher began, so its history is gone.
    is_restored: bool,
}

struct World {
    rng: StdRng,
    now: Instant,
    writer: StoreWriter,
    store: Arc<Store>,
    upstream: BTreeMap<String, Written>,
    version: u64,
    uids: u64,
    is_connected: bool,
    may_fall_behind: bool,
    states: Vec<Arc<Snapshot>>,
    /// The versions before and of each resync. The events between them are
    /// unknown.
    resyncs: Vec<(u64, u64)>,
    newest: Sender<Visible>,
    /// Each published set, and the store's version after it was published.
    sets: Vec<(Visible, u64)>,
    watchers: Vec<Watcher>,
    counts: Counts,
}

fn some_set(rng: &mut StdRng) -> Visible {
    let (mut entries, share) = (Vec::new(), rng.random_range(0.0..1.0));
    for namespace in NAMESPACES {
        if rng.random_bool(share) {
            entries.push(format!("{namespace}/"));
        }
        for name in NAMES {
            if rng.random_bool(0.15) {
                entries.push(format!("{namespace}/{name}"));
            }
        }
    }
    visible(entries.iter().map(String::as_str))
}

impl World {
    fn new(mut rng: StdRng, counts: Counts) -> Self {
        let (writer, store) = Store::new(resource(), vec![], 10);
        let set = some_set(&mut rng);
        Self {
            rng,
            now: Instant::now(),
            states: vec![store.snapshot()],
            writer,
            store,
            resyncs: Vec::new(),
            upstream: BTreeMap::new(),
            version: 10,
            uids: 0,
            is_connected: true,
            may_fall_behind: false,
            newest: channel(set.clone()).0,
            sets: vec![(set, 10)],
            watchers: Vec::new(),
            counts,
        }
    }

    fn newest(&self) -> &(Visible, u64) {
        self.sets.last().unwrap()
    }

    fn run(&mut self) {
        let watchers = self.watchers.len();
        match self.rng.random_range(0..1000) {
            0..430 => self.change(),
            430..450 => {
                self.version += self.rng.random_range(0..3);
                if self.is_connected {
                    self.writer.advance(self.version, self.now);
                }
            }
            450..460 => self.is_connected = false,
            460..500 => self.resync(),
            500..600 => self.publish(),
            600..680 if watchers < 6 => self.begin(),
            680..880 if watchers > 0 => {
                let at = self.rng.random_range(0..watchers);
                for _ in 0..self.rng.random_range(1..4) {
                    self.step(at, false);
                }
            }
            880..940 if watchers > 0 => {
                let at = self.rng.random_range(0..watchers);
                self.resume(at);
            }
            940..944 => {
                self.may_fall_behind = true;
                self.writer
                    .trim_history(0, self.now + Duration::from_secs(1));
            }
            944..946 => self.restore(),
            946..970 => self.compare(),
            _ => {}
        }
        self.note();
    }

    fn note(&mut self) {
        let state = self.store.snapshot();
        if self.states.last().unwrap().resource_version != state.resource_version {
            self.states.push(state);
        }
    }

    fn change(&mut self) {
        self.version += self.rng.random_range(1..4);
        let namespace = NAMESPACES[self.rng.random_range(0..NAMESPACES.len())];
        let name = NAMES[self.rng.random_range(0..NAMES.len())];
        let key = format!("{namespace}/{name}");
        let before = self.upstream.get(&key);
        if let Some(before) = before.filter(|_| self.rng.random_bool(0.3)) {
            let item = before.item(Some(self.version));
            self.upstream.remove(&key);
            if self.is_connected {
                self.writer.apply(true, item, self.now).unwrap();
            }
            return self.note();
        }
        self.uids += 1;
        let pod = Written {
            uid: before.map_or(self.uids, |before| before.uid),
            app: ["1", "2", "3"][self.rng.random_range(0..3)],
            node: ["n1", "n2"][self.rng.random_range(0..2)],
            ..Written::new(&key, self.version)
        };
        if self.is_connected {
            self.writer.apply(false, pod.item(None), self.now).unwrap();
        }
        self.upstream.insert(key, pod);
        self.note();
    }

    /// Lists upstream again, and finds deletions.
    fn resync(&mut self) {
        self.is_connected = true;
        let listed = self.upstream.values().map(Written::stored).collect();
        self.version += self.rng.random_range(0..2);
        let seen = self.store.snapshot().resource_version;
        self.resyncs.push((seen, self.version));
        self.writer.replace(listed, self.version, self.now);
    }

    /// Restores upstream from a backup, which ends the history.
    fn restore(&mut self) {
        self.version = self.version.saturating_sub(20).max(10);
        self.upstream.retain(|_, pod| pod.version <= self.version);
        self.version = self
            .version
            .max(self.upstream.values().map(|p| p.version).max().unwrap_or(0));
        self.resync();
        self.states = vec![self.store.snapshot()];
        self.resyncs.clear();
        self.watchers.iter_mut().for_each(|w| w.is_restored = true);
        // The known sets belong to another history.
        let (set, _) = self.newest().clone();
        self.sets = vec![(set, self.store.highest_version())];
        self.may_fall_behind = true;
    }

    fn publish(&mut self) {
        let set = match self.rng.random_range(0..10) {
            0 => Visible::default(),
            1 => visible(["a/", "a-b/", "a.b/", "a0/", "b/", "b-/"]),
            2 => {
                // The same set, made again.
                let same: Vec<_> = self
                    .newest()
                    .0
                    .iter()
                    .map(|entry| match entry {
                        VisibleEntry::Namespace(namespace) => format!("{namespace}/"),
                        VisibleEntry::Object(key) => key.to_owned(),
                    })
                    .collect();
                visible(same.iter().map(String::as_str))
            }
            _ => some_set(&mut self.rng),
        };
        self.newest.send_replace(set.clone());
        self.sets.push((set, self.store.highest_version()));
        self.counts.changes_of_sets += self.watchers.len() as u64;
    }

    fn filter(&self, selector: usize) -> Filter {
        let (labels, fields) = SELECTORS[selector];
        filter("", labels, fields)
    }

    fn begin(&mut self) {
        let selector = self.rng.random_range(0..SELECTORS.len());
        let form = Form::ALL[self.rng.random_range(0..Form::ALL.len())];
        let began = match self.rng.random_range(0..3) {
            0 => None,
            _ => self.list(selector),
        };
        let watcher = match began {
            Some(client) => self.resumed(client, form, selector),
            None => None,
        };
        let watcher = watcher.unwrap_or_else(|| self.initial(form, selector));
        self.watchers.push(watcher);
    }

    /// Lists in pages. Each page shows what is visible at its time. `None` if a
    /// page is not known any more.
    fn list(&mut self, selector: usize) -> Option<Client> {
        if self.is_connected && self.rng.random_bool(0.8) {
            // A view is listed from a version that is newer than its set.
            self.version += 1;
            self.writer.advance(self.version, self.now);
            self.note();
        }
        let filter = self.filter(selector);
        let limit = [1, 3, 7, usize::MAX][self.rng.random_range(0..4)];
        let (mut start, mut listed, mut version) = (String::new(), Vec::new(), None);
        loop {
            let (set, _) = self.newest().clone();
            let snapshot = match version {
                None => self.store.snapshot(),
                Some(version) => self.store.snapshot_at(version)?,
            };
            version = Some(snapshot.resource_version);
            let scope = KeyScope::Visible(set.clone());
            let objects = snapshot.iter_from(&scope, &start);
            let page = objects.filter(|o| filter.matches(o)).take(limit);
            let page: Vec<_> = page.cloned().collect();
            self.counts.pages += 1;
            assert!(page.iter().all(|o| set.contains(&o.key)));
            let last = page.last().map(|o| format!("{}\0", o.key.as_str()));
            let is_last = page.len() < limit;
            listed.extend(page);
            match last {
                Some(last) if !is_last => start = last,
                _ => break,
            }
            self.store.retain(&snapshot, self.now);
            match self.rng.random_range(0..8) {
                0 => self.publish(),
                1 if self.is_connected => self.change(),
                _ => {}
            }
        }
        Some(Client::from_list(listed.iter(), version?))
    }

    /// Begins a watch from a client's version, if that is newer than its set.
    fn resumed(&mut self, client: Client, form: Form, selector: usize) -> Option<Watcher> {
        let version = client.version.filter(|_| client.has_begun)?;
        let (set, since) = self.newest().clone();
        if version <= since {
            self.counts.expired += 1;
            return None;
        }
        if self.rng.random_bool(0.1) {
            // Something changes before the watch begins.
            self.publish();
            self.change();
        }
        let options = options(self.filter(selector), HOUR);
        let watch = Watch::from_version(
            self.store.clone(),
            version,
            options,
            form.writer(&self.store),
        );
        let visibility = Visibility::new(set, self.newest.subscribe());
        let watch = watch.ok()?.of_view(visibility).ok()?;
        self.counts.resumed += 1;
        Some(Watcher {
            watch: form.fitted(watch),
            client,
            form,
            selector,
            is_restored: false,
        })
    }

    fn initial(&mut self, form: Form, selector: usize) -> Watcher {
        let (set, _) = self.newest().clone();
        let marked = self.rng.random_bool(0.7);
        let options = WatchOptions {
            bookmarks: marked,
            ..options(self.filter(selector), HOUR)
        };
        let snapshot = self.store.snapshot();
        if self.rng.random_bool(0.1) {
            self.publish();
            self.change();
        }
        let store = self.store.clone();
        let watch = Watch::with_initial_events(store, snapshot, options, form.writer(&self.store));
        let visibility = Visibility::new(set, self.newest.subscribe());
        let watch = watch.of_view(visibility).unwrap();
        Watcher {
            watch: form.fitted(if marked { watch } else { watch.unmarked() }),
            // Without the end bookmark, a client does not know what it still
            // lacks.
            client: Client::default(),
            form,
            selector,
            is_restored: false,
        }
    }

    /// Takes the watcher's next step. Returns false if it has nothing to hand
    /// out. A client that `breaks` off reads only a part of the batch.
    fn step(&mut self, at: usize, breaks: bool) -> bool {
        match self.watchers[at].watch.step() {
            Ok(Step::Idle) => false,
            Ok(Step::Again) => true,
            Ok(Step::Batch(batch, events)) => {
                let mut frames = self.watchers[at].form.frames(&batch);
                assert_eq!(frames.len(), events);
                if breaks {
                    frames.truncate(self.rng.random_range(0..=events));
                }
                frames.iter().for_each(|frame| self.hear(at, frame));
                true
            }
            Err(end) => {
                assert_eq!(end, WatchEnd::FellBehind);
                assert!(self.may_fall_behind, "fell behind without a reason");
                self.counts.fell_behind += 1;
                let Watcher { form, selector, .. } = self.watchers[at];
                self.watchers[at] = self.initial(form, selector);
                true
            }
        }
    }

    fn hear(&mut self, at: usize, frame: &Frame) {
        let set = self.sets.last().unwrap().0.clone();
        let watcher = &mut self.watchers[at];
        let (namespace, name) = frame.key.split_once('/').unwrap();
        let key = ObjectKey::new(namespace, name);
        match frame.kind.as_str() {
            "BOOKMARK" => self.counts.bookmarks += 1,
            "DELETED" if !set.contains(&key) => {
                // The object was hidden by the first set after which no set
                // showed it again.
                let without = self
                    .sets
                    .iter()
                    .rev()
                    .take_while(|(set, _)| !set.contains(&key));
                let (_, since) = without.last().unwrap();
                assert!(
                    frame.written <= *since,
                    "{frame:?} is newer than its loss at {since}"
                );
                assert!(
                    frame.version <= *since,
                    "{frame:?} would resume after {since}"
                );
                self.counts.deleted_unseen += 1;
                self.counts.events += 1;
            }
            _ => {
                assert!(set.contains(&key), "{frame:?} is not visible");
                self.counts.events += 1;
            }
        }
        watcher.client.hear(frame);
        let mut resyncs = self.resyncs.iter();
        let is_known = !resyncs.any(|(seen, listed)| (seen + 1..*listed).contains(&frame.version));
        if frame.kind == "BOOKMARK" && is_known && !watcher.is_restored {
            let selector = watcher.selector;
            let known = self
                .states
                .iter()
                .rposition(|s| s.resource_version <= frame.version);
            let state = self.states[known.unwrap()].clone();
            self.check(at, &state, selector);
        }
    }

    /// Compares what the client believes with what it may see of a state.
    fn check(&self, at: usize, state: &Snapshot, selector: usize) {
        let (set, _) = self.newest();
        let filter = self.filter(selector);
        let all = state.iter(&KeyScope::All);
        let may_see = all.filter(|o| set.contains(&o.key) && filter.matches(o));
        let believes = &self.watchers[at].client.believes;
        assert_eq!(*believes, believed(may_see), "{:?}", self.watchers[at].form);
    }

    /// Lets a client break off, perhaps within a batch, and resume.
    fn resume(&mut self, at: usize) {
        if self.rng.random_bool(0.6) {
            self.step(at, true);
        }
        let Watcher {
            form,
            selector,
            is_restored,
            ..
        } = self.watchers[at];
        let client = self.watchers[at].client.clone();
        let resumed = match is_restored {
            true => None,
            false => self.resumed(client, form, selector),
        };
        let watcher = match resumed {
            Some(watcher) => Some(watcher),
            None => match self.list(selector) {
                Some(client) => self.resumed(client, form, selector),
                None => None,
            },
        };
        self.watchers[at] = watcher.unwrap_or_else(|| self.initial(form, selector));
    }

    /// Lets all watchers take everything, and compares.
    fn compare(&mut self) {
        for at in 0..self.watchers.len() {
            while self.step(at, false) {}
            let state = self.store.snapshot();
            self.check(at, &state, self.watchers[at].selector);
            self.counts.compared += 1;
        }
    }
}

/// `APIFRONT_TEST_EVENTS` sets how many events watchers are sent.
#[tokio::test(start_paused = true)]
async fn watchers_of_views_are_told_what_they_may_see() {
    let seed = number("APIFRONT_TEST_SEED").unwrap_or_else(rand::random);
    let events = number("APIFRONT_TEST_EVENTS").unwrap_or(20_000);
    println!("APIFRONT_TEST_SEED={seed}");
    let mut seeds = StdRng::seed_from_u64(seed);
    let mut counts = Counts::default();
    while counts.events < events {
        let mut world = World::new(StdRng::seed_from_u64(seeds.random()), counts);
        for _ in 0..STEPS {
            world.run();
        }
        world.compare();
        counts = world.counts;
        counts.histories += 1;
    }
    println!("leaked 0, lost 0 of {counts:?}");
    assert!(counts.deleted_unseen > 0 && counts.expired > 0 && counts.resumed > 0);
}
