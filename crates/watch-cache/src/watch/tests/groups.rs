//! Tests what the watches in groups are given, and when they leave.

use super::super::{Given, Step, Tally, Watch, WatchClient, WatchEnd, WatchGroups};
use super::*;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::watch::{Receiver, Sender, channel};

const GROUP: usize = crate::store::MAX_GROUP_MEMBERS;

/// A client that takes frames from a group, or in its own task when it has no
/// room. The versions of its events must follow each other without gaps.
#[derive(Clone)]
struct Client {
    heard: Arc<Heard>,
    groups: Arc<WatchGroups>,
    stopping: Receiver<bool>,
}

#[derive(Default)]
struct Heard {
    version: AtomicU64,
    bookmarks: AtomicUsize,
    /// The batches that came from a group, and those that groups counted.
    given: AtomicUsize,
    counted: AtomicUsize,
    no_room: AtomicBool,
    slow: AtomicBool,
    gone: AtomicBool,
    waker: Mutex<Option<Waker>>,
    end: Mutex<Option<Option<WatchEnd>>>,
}

impl Heard {
    fn hear(&self, frames: &[u8]) {
        for seen in decode(frames) {
            let before = self.version.load(Ordering::SeqCst);
            if seen.kind == "BOOKMARK" {
                assert_eq!(seen.version, before, "a bookmark is ahead");
                self.bookmarks.fetch_add(1, Ordering::SeqCst);
            } else {
                assert_eq!(seen.version, before + 1, "lost or repeated");
                self.version.store(seen.version, Ordering::SeqCst);
            }
        }
    }

    fn is_at(&self, version: u64) -> bool {
        self.version.load(Ordering::SeqCst) == version
    }

    fn end(&self) -> Option<Option<WatchEnd>> {
        *self.end.lock()
    }
}

impl Client {
    async fn run(self, mut watch: Box<Watch>) {
        let end = loop {
            if *self.stopping.borrow() {
                break None;
            }
            match watch.step() {
                Ok(Step::Batch(frames, _)) => self.heard.hear(&frames),
                Ok(Step::Again) => tokio::task::yield_now().await,
                Ok(Step::Idle) if watch.waits_for_events() => {
                    let groups = self.groups.clone();
                    let stopping = self.stopping.clone();
                    return groups.join(watch, Box::new(self), &stopping);
                }
                Ok(Step::Idle) => watch.changed().await,
                Err(end) => break Some(end),
            }
        };
        *self.heard.end.lock() = Some(end);
    }
}

impl WatchClient for Client {
    fn give(&mut self, frames: &[Bytes]) -> Given {
        let heard = &self.heard;
        // h2 does this when it gets capacity.
        if let Some(waker) = heard.waker.lock().take() {
            waker.wake();
        }
        if heard.gone.load(Ordering::SeqCst) {
            return Given::Gone;
        }
        if heard.no_room.load(Ordering::SeqCst) {
            return Given::NoRoom;
        }
        if heard.slow.load(Ordering::SeqCst) {
            // Simulates work of the processor.
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(1) {
                std::hint::spin_loop();
            }
        }
        frames.iter().for_each(|frame| heard.hear(frame));
        heard.given.fetch_add(1, Ordering::SeqCst);
        Given::All
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        *self.heard.waker.lock() = Some(cx.waker().clone());
        match self.heard.gone.load(Ordering::SeqCst) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    fn count(&self, tally: &Tally) {
        let clients = usize::try_from(tally.clients).unwrap();
        self.heard.counted.fetch_add(clients, Ordering::SeqCst);
    }

    fn go_on(self: Box<Self>, watch: Box<Watch>) {
        tokio::spawn(self.run(watch));
    }

    fn end(self: Box<Self>) {
        *self.heard.end.lock() = Some(None);
    }
}

struct Cluster {
    writer: StoreWriter,
    store: Arc<Store>,
    groups: Arc<WatchGroups>,
    stop: Sender<bool>,
}

impl Cluster {
    fn new() -> Self {
        let (writer, store) = Store::new(resource(), vec![], 1);
        Self {
            writer,
            store,
            groups: Arc::default(),
            stop: channel(false).0,
        }
    }

    fn watch(&self, lasts: Duration) -> Arc<Heard> {
        self.watch_from(1, lasts)
    }

    fn watch_from(&self, version: u64, lasts: Duration) -> Arc<Heard> {
        let heard = Arc::new(Heard::default());
        heard.version.store(version, Ordering::SeqCst);
        let client = Client {
            heard: heard.clone(),
            groups: self.groups.clone(),
            stopping: self.stop.subscribe(),
        };
        let watch = watch_from(&self.store, version, options(filter("", "", ""), lasts));
        tokio::spawn(client.run(Box::new(watch.unwrap())));
        heard
    }

    fn publish(&self, version: u64) {
        let item = Pod::new("a", "x", version).item();
        self.writer.apply(false, item, Instant::now()).unwrap();
    }
}

async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_is_given_to_the_members_of_all_groups() {
    let cluster = Cluster::new();
    let clients: Vec<_> = (0..2 * GROUP + 2).map(|_| cluster.watch(HOUR)).collect();
    settle().await;
    assert_eq!(cluster.groups.sizes(), [GROUP, GROUP, 2]);
    cluster.publish(2);
    settle().await;
    assert!(clients.iter().all(|heard| heard.is_at(2)));
    let sum = |of: fn(&Heard) -> &AtomicUsize| -> usize {
        let each = clients.iter().map(|heard| of(heard));
        each.map(|number| number.load(Ordering::SeqCst)).sum()
    };
    assert_eq!(sum(|heard| &heard.given), clients.len());
    assert_eq!(sum(|heard| &heard.counted), clients.len());
}

#[tokio::test(start_paused = true)]
async fn bookmarks_and_ends_come_in_time() {
    let cluster = Cluster::new();
    let heard = cluster.watch(Duration::from_secs(100));
    settle().await;
    cluster.publish(2);
    let began = tokio::time::Instant::now();
    for (until, expected) in [(59, 0), (61, 1), (97, 1), (99, 2)] {
        tokio::time::sleep_until(began + Duration::from_secs(until)).await;
        settle().await;
        assert_eq!(heard.bookmarks.load(Ordering::SeqCst), expected);
        assert_eq!(heard.end(), None);
        assert_eq!(cluster.groups.sizes(), [1], "at {until} s");
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(heard.end(), Some(Some(WatchEnd::Timeout)));
    assert!(cluster.groups.sizes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn who_has_no_room_goes_on_alone_and_misses_nothing() {
    let cluster = Cluster::new();
    let clients = [cluster.watch(HOUR), cluster.watch(HOUR)];
    settle().await;
    clients[0].no_room.store(true, Ordering::SeqCst);
    for version in 2..9 {
        cluster.publish(version);
        settle().await;
        assert!(clients.iter().all(|heard| heard.is_at(version)));
    }
    assert_eq!(clients[0].given.load(Ordering::SeqCst), 0);
    assert_eq!(clients[1].given.load(Ordering::SeqCst), 7);
    assert_eq!(cluster.groups.sizes(), [2], "both are back");
}

#[tokio::test(start_paused = true)]
async fn groups_are_left_by_the_gone_and_at_the_end() {
    let cluster = Cluster::new();
    let clients: Vec<_> = (0..3).map(|_| cluster.watch(HOUR)).collect();
    settle().await;
    cluster.publish(2);
    settle().await;
    clients[1].gone.store(true, Ordering::SeqCst);
    let waker = clients[1].waker.lock().take().unwrap();
    waker.wake();
    settle().await;
    assert_eq!(clients[1].end(), Some(None));
    assert_eq!(cluster.groups.sizes(), [2]);
    cluster.writer.close();
    settle().await;
    assert_eq!(clients[0].end(), Some(Some(WatchEnd::Closed)));
    assert!(cluster.groups.sizes().is_empty());

    let cluster = Cluster::new();
    let heard = cluster.watch(HOUR);
    settle().await;
    cluster.stop.send_replace(true);
    settle().await;
    assert_eq!(heard.end(), Some(None));
    assert!(cluster.groups.sizes().is_empty());
}

/// The events after a resync depend on the version that a client knows.
#[tokio::test(start_paused = true)]
async fn a_resync_is_told_to_each_by_what_it_knows() {
    let cluster = Cluster::new();
    // The second client has a list from upstream that is newer than the cache.
    let clients = [cluster.watch(HOUR), cluster.watch_from(5, HOUR)];
    settle().await;
    assert_eq!(cluster.groups.sizes(), [2]);
    let listed = vec![Pod::new("a", "x", 2).stored()];
    cluster.writer.replace(listed, 9, Instant::now());
    settle().await;
    assert!(clients[0].is_at(2));
    assert_eq!(clients[1].end(), Some(Some(WatchEnd::FellBehind)));
    assert_eq!(cluster.groups.sizes(), [1]);
}

#[tokio::test]
async fn others_have_their_turn_while_frames_take_long() {
    let cluster = Cluster::new();
    let clients: Vec<_> = (0..GROUP).map(|_| cluster.watch(HOUR)).collect();
    settle().await;
    assert_eq!(cluster.groups.sizes(), [GROUP]);
    for heard in &clients {
        heard.slow.store(true, Ordering::SeqCst);
    }
    cluster.publish(2);
    let told = || clients.iter().filter(|heard| heard.is_at(2)).count();
    let mut turns = 0;
    while told() < GROUP {
        tokio::task::yield_now().await;
        turns += 1;
    }
    assert!(turns >= GROUP / 2, "{turns} turns");
}

/// While events are published, watches on several threads join groups, are
/// given events, run out of room and come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nothing_is_missed_by_who_comes_and_goes() {
    const EVENTS: u64 = 10_000;
    let cluster = Cluster::new();
    let clients: Vec<_> = (0..100).map(|_| cluster.watch(HOUR)).collect();
    for version in 2..=EVENTS {
        cluster.publish(version);
        let turn = usize::try_from(version).unwrap();
        let client = &clients[turn % clients.len()];
        client.no_room.store(turn % 3 == 0, Ordering::SeqCst);
        if version % 64 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let all = async {
        while !clients.iter().all(|heard| heard.is_at(EVENTS)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(20), all).await;
    let behind = clients.iter().filter(|heard| !heard.is_at(EVENTS)).count();
    assert!(waited.is_ok(), "{behind} clients sleep");
    let given = |heard: &Arc<Heard>| heard.given.load(Ordering::SeqCst);
    assert!(clients.iter().map(given).sum::<usize>() > 0);
}
