//! Tests a writer, a publisher of sets and watchers on several threads. No
//! watcher may be told of a state that was written after the object was hidden,
//! and nothing may be lost.

use super::*;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use rand::Rng;
use tokio::sync::watch::{Sender, channel};
use tokio::task::yield_now;

use super::super::super::{Visibility, WatchEnd};
use crate::store::{KeyScope, ObjectKey};

const NAMESPACES: [&str; 4] = ["a", "a-b", "b", "c"];
const EVENTS: u64 = 10_000;
/// The object that is written last. All sets have it.
const LAST: &str = "z/last";

/// The published sets, each with the store's version after it was published.
struct Sets {
    newest: Sender<Visible>,
    all: Mutex<Vec<(Visible, u64)>>,
}

impl Sets {
    fn publish(&self, store: &Store) {
        let mut rng = rand::rng();
        let mut entries = vec![LAST.to_owned()];
        for namespace in NAMESPACES {
            match rng.random_range(0..4) {
                0 => entries.push(format!("{namespace}/x0")),
                1 => {}
                _ => entries.push(format!("{namespace}/")),
            }
        }
        let set = visible(entries.iter().map(String::as_str));
        let mut all = self.all.lock();
        self.newest.send_replace(set.clone());
        all.push((set, store.highest_version()));
    }

    fn newest(&self) -> (Visible, u64) {
        self.all.lock().last().unwrap().clone()
    }

    /// Tells whether a watcher may have been told of the object at this
    /// version: it was visible under the set of that time or a later one.
    fn allow(&self, key: &ObjectKey, version: u64) -> bool {
        let all = self.all.lock();
        let at = all.partition_point(|(_, since)| *since < version);
        let from = at.saturating_sub(1);
        all[from..].iter().any(|(set, _)| set.contains(key))
    }
}

fn object_key(key: &str) -> ObjectKey {
    let (namespace, name) = key.split_once('/').unwrap();
    ObjectKey::new(namespace, name)
}

struct World {
    writer: StoreWriter,
    store: Arc<Store>,
    sets: Sets,
    is_done: AtomicBool,
}

impl World {
    /// Begins a watch. Begins at the client's version if that is newer than the
    /// set.
    fn begin(&self, client: &mut Client) -> Watch {
        let options = options(filter("", "", ""), HOUR);
        let store = || self.store.clone();
        let frames = || Form::Whole.writer(&self.store);
        let (set, since) = self.sets.newest();
        let visibility = || Visibility::new(set.clone(), self.sets.newest.subscribe());
        if client.has_begun
            && let Some(version) = client.version.filter(|version| *version > since)
            && let Ok(watch) = Watch::from_version(store(), version, options.clone(), frames())
            && let Ok(watch) = watch.of_view(visibility())
        {
            return watch;
        }
        let snapshot = self.store.snapshot();
        if snapshot.resource_version > since {
            let objects = snapshot.iter(&KeyScope::Visible(set.clone()));
            *client = Client::from_list(objects, snapshot.resource_version);
            let from = client.version.unwrap();
            let watch = Watch::from_version(store(), from, options, frames());
            return watch.unwrap().of_view(visibility()).unwrap();
        }
        *client = Client::default();
        let watch = Watch::with_initial_events(store(), snapshot, options, frames());
        watch.of_view(visibility()).unwrap()
    }

    /// Watches until the last object comes. Returns the events, and how often
    /// the client resumed.
    async fn watch(&self, period: Option<u64>) -> (Client, Vec<Frame>, u64) {
        let mut client = Client::default();
        let (mut heard, mut resumed) = (Vec::new(), 0);
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(120) {
            let before = (client.version, client.has_begun);
            let mut watch = self.begin(&mut client);
            resumed += u64::from(before.1 && client.version == before.0);
            if let Some(period) = period {
                watch.bookmark_each(Duration::from_micros(period));
            }
            let mut batches = rand::rng().random_range(1..60);
            if client.believes.contains_key(LAST) {
                return (client, heard, resumed);
            }
            while batches > 0 || self.is_done.load(Ordering::Acquire) {
                batches = u64::saturating_sub(batches, 1);
                // Taking a bookmark each time never waits, and other tasks have
                // to run, too.
                yield_now().await;
                let next = tokio::time::timeout(Duration::from_secs(10), watch.next());
                let batch = match next.await {
                    Ok(Ok((batch, _))) => batch,
                    Ok(Err(WatchEnd::FellBehind)) => break,
                    other => panic!("{other:?}"),
                };
                let mut frames = Form::Whole.frames(&batch);
                if batches == 0 && !self.is_done.load(Ordering::Acquire) {
                    frames.truncate(rand::rng().random_range(0..=frames.len()));
                }
                for frame in frames {
                    client.hear(&frame);
                    if frame.kind != "BOOKMARK" {
                        heard.push(frame);
                    }
                }
                if client.believes.contains_key(LAST) {
                    return (client, heard, resumed);
                }
            }
        }
        panic!("the last object did not come: {:?}", client.version);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_is_told_of_what_was_written_after_it_was_hidden() {
    let (writer, store) = Store::new(resource(), vec![], 1);
    let world = Arc::new(World {
        sets: Sets {
            newest: channel(Visible::default()).0,
            all: Mutex::new(vec![(Visible::default(), 1)]),
        },
        writer,
        store,
        is_done: AtomicBool::new(false),
    });
    world.sets.publish(&world.store);
    let watchers = [None, None, Some(0), Some(30)].map(|period| {
        let world = world.clone();
        tokio::spawn(async move { world.watch(period).await })
    });
    let publishing = {
        let world = world.clone();
        tokio::spawn(async move {
            while !world.is_done.load(Ordering::Acquire) {
                world.sets.publish(&world.store);
                let pause = rand::rng().random_range(0..20);
                for _ in 0..pause {
                    yield_now().await;
                }
            }
        })
    };
    let writing = {
        let world = world.clone();
        tokio::spawn(async move {
            let mut is_there = BTreeMap::new();
            for version in 2..EVENTS {
                let namespace = NAMESPACES[rand::rng().random_range(0..NAMESPACES.len())];
                let key = format!("{namespace}/x{}", rand::rng().random_range(0..3));
                let now = Instant::now();
                let written = Written::new(&key, version);
                match is_there.remove(&key) {
                    Some(last) if rand::rng().random_bool(0.3) => {
                        let last: Written = last;
                        world
                            .writer
                            .apply(true, last.item(Some(version)), now)
                            .unwrap();
                    }
                    _ => {
                        world.writer.apply(false, written.item(None), now).unwrap();
                        is_there.insert(key, written);
                    }
                }
                if version % 16 == 0 {
                    yield_now().await;
                }
            }
        })
    };
    writing.await.unwrap();
    world.is_done.store(true, Ordering::Release);
    publishing.await.unwrap();
    let last = Written::new(LAST, EVENTS).item(None);
    world.writer.apply(false, last, Instant::now()).unwrap();

    let (mut events, mut unseen, mut resumed) = (0, 0, 0);
    for watcher in watchers {
        let (client, heard, times) = watcher.await.unwrap();
        resumed += times;
        for frame in heard {
            let key = object_key(&frame.key);
            let newest = frame.version.max(frame.written);
            assert!(world.sets.allow(&key, newest), "{frame:?} was not visible");
            events += 1;
            unseen += usize::from(frame.kind == "DELETED" && frame.written < frame.version);
        }
        let (set, _) = world.sets.newest();
        let may_see = world.store.snapshot();
        let may_see = may_see.iter(&KeyScope::Visible(set));
        assert_eq!(client.believes, believed(may_see));
    }
    let sets = world.sets.all.lock().len();
    println!("{events} events, {unseen} deletions, {sets} sets, {resumed} resumed");
    assert!(events > 0 && sets > 10);
}
