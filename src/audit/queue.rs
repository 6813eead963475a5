//! The queue of events between requests and a backend. It is bounded, in total
//! and for each caller.
//!
//! An event is lost if its caller's share has no room. To avoid this, a caller's
//! requests wait a moment when the caller's events come faster than the backend
//! takes them. The requests of other callers do not wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apifront_shares::{Ledger, Limits};
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use super::Owner;
use super::event::Unfinished;

/// The most bytes of waiting events. 10,000 events, which is kube-apiserver's limit,
/// have 10 MB. Events with objects hold bodies instead, which have their own limit
/// (`body.rs`).
const MAX_BYTES: usize = 64 << 20;

/// A backend that took no event for this long stands still, and requests no longer
/// wait for it. A dead webhook must not make the API slow, and kube-apiserver's
/// requests do not wait either.
const STANDS_STILL: Duration = Duration::from_secs(1);

/// An event. Items are in the order in which the events were made.
#[derive(Debug)]
pub(super) enum Item {
    /// A line of this length: the next bytes of [`Batch::lines`].
    Line(usize),
    /// An event that must still be made from the bodies.
    Unfinished(Arc<Unfinished>),
}

/// Events that the backend takes together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) lines: Vec<u8>,
    pub(super) items: Vec<Item>,
    /// The owner of each event, in the same order.
    owners: Vec<Owner>,
}

impl Batch {
    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.items.clear();
        self.owners.clear();
    }

    #[cfg(test)]
    pub(super) fn push_line(&mut self, line: &[u8]) {
        self.lines.extend_from_slice(line);
        self.items.push(Item::Line(line.len()));
    }
}

struct State {
    waiting: Batch,
    /// The events and bytes that each owner has waiting.
    events: Ledger<Owner>,
    bytes: Ledger<Owner>,
    /// The time at which the backend last took events.
    taken: Instant,
    closed: bool,
}

pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Notified when room becomes free.
    room: Notify,
    /// True while so many events wait that some owner's share may be crowded.
    filling: AtomicBool,
    /// From this number of waiting events on, `filling` is true. With fewer, no
    /// owner's share is crowded.
    many: usize,
    /// With this number of waiting events, the backend need not wait for more.
    batch: usize,
}

impl Queue {
    pub(super) fn new(capacity: usize, batch: usize) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: Batch::default(),
                events: Ledger::new(Limits::shared(capacity)),
                bytes: Ledger::new(Limits::shared(MAX_BYTES)),
                taken: Instant::now(),
                closed: false,
            }),
            changed: Condvar::new(),
            room: Notify::new(),
            filling: AtomicBool::new(false),
            many: capacity / 4,
            batch,
        }
    }

    /// Returns false if there is no room for this owner, or the queue is
    /// closed.
    pub(super) fn push_line(&self, owner: Owner, line: &[u8]) -> bool {
        self.push(owner, line.len(), |waiting| {
            waiting.lines.extend_from_slice(line);
            Item::Line(line.len())
        })
    }

    /// Returns false if there is no room for this owner, or the queue is
    /// closed.
    pub(super) fn push_unfinished(&self, owner: Owner, event: Arc<Unfinished>) -> bool {
        self.push(owner, 0, |_| Item::Unfinished(event))
    }

    fn push(&self, owner: Owner, bytes: usize, item: impl FnOnce(&mut Batch) -> Item) -> bool {
        let mut state = self.state.lock();
        let fits = state.events.allows(Some(&owner), 1).is_ok()
            && state.bytes.allows(Some(&owner), bytes).is_ok();
        if state.closed || !fits {
            return false;
        }
        state.events.add(Some(&owner), 1);
        state.bytes.add(Some(&owner), bytes);
        let waiting = &mut state.waiting;
        let item = item(waiting);
        waiting.items.push(item);
        waiting.owners.push(owner);
        let length = waiting.items.len();
        let much = length >= self.many || state.bytes.total() >= MAX_BYTES / 4;
        drop(state);
        if much {
            self.filling.store(true, Ordering::Relaxed);
        }
        // The backend's thread waits for the first event, and then for a whole
        // batch.
        if length == 1 || length == self.batch {
            self.changed.notify_one();
        }
        true
    }

    pub(super) fn is_filling(&self) -> bool {
        self.filling.load(Ordering::Relaxed)
    }

    /// Waits, for `patience` at most, while this owner's events fill half of its
    /// share and the backend goes on taking events. The other half is for requests
    /// that have begun. So a caller's reads from memory are no faster than their
    /// audit, and the events are not lost.
    pub(super) async fn wait_for_room(&self, owner: Owner, patience: Duration) {
        if !self.is_filling() {
            return;
        }
        let wait = async {
            loop {
                // Listens before it looks, so that it misses no notification.
                let mut room = std::pin::pin!(self.room.notified());
                room.as_mut().enable();
                if !self.makes_wait(owner) {
                    return;
                }
                room.await;
            }
        };
        // If there is still no room, the caller's events are lost.
        let _ = tokio::time::timeout(patience, wait).await;
    }

    fn makes_wait(&self, owner: Owner) -> bool {
        let state = self.state.lock();
        let crowded = state.events.is_crowded_by(&owner) || state.bytes.is_crowded_by(&owner);
        crowded && !state.closed && state.taken.elapsed() < STANDS_STILL
    }

    /// Closes the queue to new events. The backend's thread goes on until no event
    /// is left.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits for the first event, and then for `gather` or until there is a whole
    /// batch. Returns false when the queue is closed and empty.
    pub(super) fn take(&self, gather: Duration, into: &mut Batch) -> bool {
        into.clear();
        let mut state = self.state.lock();
        while state.waiting.items.is_empty() {
            if state.closed {
                return false;
            }
            self.changed.wait(&mut state);
        }
        let gathers = |s: &mut State| !s.closed && s.waiting.items.len() < self.batch;
        self.changed.wait_while_for(&mut state, gathers, gather);
        state.taken = Instant::now();
        if state.waiting.items.len() <= self.batch {
            std::mem::swap(&mut state.waiting, into);
            state.events.clear();
            state.bytes.clear();
            self.filling.store(false, Ordering::Relaxed);
        } else {
            into.items.extend(state.waiting.items.drain(..self.batch));
            into.owners.extend(state.waiting.owners.drain(..self.batch));
            for (owner, item) in into.owners.iter().zip(&into.items) {
                state.events.take_off(Some(owner), 1);
                state.bytes.take_off(Some(owner), item.line_bytes());
            }
            let bytes: usize = into.items.iter().map(Item::line_bytes).sum();
            into.lines.extend(state.waiting.lines.drain(..bytes));
        }
        drop(state);
        self.room.notify_waiters();
        true
    }
}

impl Item {
    fn line_bytes(&self) -> usize {
        match self {
            Self::Line(bytes) => *bytes,
            Self::Unfinished(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_in_order_and_in_batches() {
        let queue = Queue::new(9, 2);
        for line in [&b"a"[..], b"bb", b"ccc", b"d", b"e"] {
            assert!(queue.push_line(Owner(1), line));
        }
        assert!(!queue.push_line(Owner(1), b"one too many"));
        queue.close();
        let mut batch = Batch::default();
        let mut taken = Vec::new();
        while queue.take(Duration::from_secs(60), &mut batch) {
            taken.push(String::from_utf8(batch.lines.clone()).unwrap());
        }
        assert_eq!(taken, ["abb", "cccd", "e"]);
    }

    #[test]
    fn a_flood_loses_its_own_events() {
        let queue = Queue::new(1000, 100);
        let (flood, jane) = (Owner(1), Owner(2));
        let lost = (0..10_000).filter(|_| !queue.push_line(flood, b"flood"));
        assert!(lost.count() >= 9_000);
        assert!((0..100).all(|_| queue.push_line(jane, b"jane")));
        // Taken events make room again.
        let mut batch = Batch::default();
        assert!(queue.take(Duration::ZERO, &mut batch));
        assert!(queue.push_line(flood, b"flood"));
        // Bytes are shared as events are.
        let queue = Queue::new(1000, 100);
        let long = vec![b'x'; 1 << 20];
        while queue.push_line(flood, &long) {}
        assert!((0..10).all(|_| queue.push_line(jane, &long)));
    }

    #[tokio::test]
    async fn a_caller_waits_for_its_own_events_alone() {
        const ROOM_TIMEOUT: Duration = Duration::from_secs(60);
        let queue = Arc::new(Queue::new(100, 100));
        let (flood, jane) = (Owner(1), Owner(2));
        while queue.push_line(flood, b"flood") {}
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.wait_for_room(flood, ROOM_TIMEOUT).await }
        });
        queue.wait_for_room(jane, ROOM_TIMEOUT).await;
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        let mut batch = Batch::default();
        assert!(queue.take(Duration::ZERO, &mut batch));
        waiting.await.unwrap();
        // Requests do not wait for a backend that stands still.
        while queue.push_line(flood, b"flood") {}
        queue.state.lock().taken -= STANDS_STILL;
        queue.wait_for_room(flood, ROOM_TIMEOUT).await;
    }
}
