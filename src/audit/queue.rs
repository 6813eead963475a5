//! Events on their way from requests to a backend: bounded, and never waited
//! for by a request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::event::Unfinished;

/// Bytes of events that wait. 10,000 of them, the number that kube-apiserver
/// lets wait, have 10 MB; those with objects hold bodies instead, which have a
/// bound of their own (`body.rs`).
const MAX_BYTES: usize = 64 << 20;

/// One event, in the order they were made.
#[derive(Debug)]
pub(super) enum Item {
    /// That many bytes of [`Batch::lines`], of a line.
    Line(usize),
    /// What is still to be made of bodies.
    Unfinished(Arc<Unfinished>),
}

/// Events that are taken together.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) lines: Vec<u8>,
    pub(super) items: Vec<Item>,
}

impl Batch {
    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.items.clear();
    }
}

#[derive(Default)]
struct State {
    waiting: Batch,
    closed: bool,
}

pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    /// Events that may wait. What comes when they are as many is lost, and
    /// counted.
    capacity: usize,
    /// As many are worth being taken at once.
    batch: usize,
}

impl Queue {
    pub(super) fn new(capacity: usize, batch: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            capacity,
            batch,
        }
    }

    /// False if there is no room, or the queue is closed.
    pub(super) fn push_line(&self, line: &[u8]) -> bool {
        self.push(|waiting| {
            waiting.lines.extend_from_slice(line);
            Item::Line(line.len())
        })
    }

    /// False if there is no room.
    pub(super) fn push_unfinished(&self, event: Arc<Unfinished>) -> bool {
        self.push(|_| Item::Unfinished(event))
    }

    fn push(&self, item: impl FnOnce(&mut Batch) -> Item) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        let waiting = &mut state.waiting;
        if waiting.items.len() >= self.capacity || waiting.lines.len() >= MAX_BYTES {
            return false;
        }
        let item = item(waiting);
        waiting.items.push(item);
        let length = waiting.items.len();
        drop(state);
        // The taker waits for the first, and for a whole batch.
        if length == 1 || length == self.batch {
            self.changed.notify_one();
        }
        true
    }

    /// No more will come: who takes goes on until all is taken.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }

    /// Waits for events, and for those that come within `gather` after the first
    /// or until they are a batch. False when the queue is closed and empty.
    pub(super) fn take(&self, gather: Duration, into: &mut Batch) -> bool {
        into.clear();
        let mut state = self.state.lock();
        while state.waiting.items.is_empty() {
            if state.closed {
                return false;
            }
            self.changed.wait(&mut state);
        }
        let until = Instant::now() + gather;
        while !state.closed && state.waiting.items.len() < self.batch {
            if self.changed.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        if state.waiting.items.len() <= self.batch {
            std::mem::swap(&mut state.waiting, into);
            return true;
        }
        into.items.extend(state.waiting.items.drain(..self.batch));
        let bytes: usize = into.items.iter().map(Item::line_bytes).sum();
        into.lines.extend(state.waiting.lines.drain(..bytes));
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
        let queue = Queue::new(5, 2);
        for line in [&b"a"[..], b"bb", b"ccc", b"d", b"e"] {
            assert!(queue.push_line(line));
        }
        assert!(!queue.push_line(b"one too many"));
        queue.close();
        let mut batch = Batch::default();
        let mut taken = Vec::new();
        while queue.take(Duration::from_secs(60), &mut batch) {
            taken.push(String::from_utf8(batch.lines.clone()).unwrap());
        }
        assert_eq!(taken, ["abb", "cccd", "e"]);
    }
}
