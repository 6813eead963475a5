//! Earlier states of the log's time, from which any other is a short way.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Snapshot;

/// A state is kept each so many events: rolling half as many forward or back
/// takes a fraction of a millisecond.
const EVENTS: usize = 128;

/// What all checkpoints of a store may hold on to. The objects are the log's;
/// this is for leaves and nodes, of which each event leaves a set behind. At
/// the bound every second one goes and the distance doubles.
const BYTES: usize = 8 << 20;

/// A leaf of pointers and the nodes above it.
const BYTES_PER_EVENT: usize = 1200;

/// States made for readers and kept: one page after another asks for the same
/// version.
const MADE: usize = 8;

#[derive(Debug)]
pub(super) struct Checkpoints {
    /// Oldest first.
    taken: VecDeque<Arc<Snapshot>>,
    /// Events between two.
    distance: usize,
    /// Events since the last one.
    since: usize,
    /// Latest first.
    made: VecDeque<Arc<Snapshot>>,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self {
            taken: VecDeque::new(),
            distance: EVENTS,
            since: 0,
            made: VecDeque::new(),
        }
    }
}

impl Checkpoints {
    /// `events` led to the current state.
    pub(super) fn pass(&mut self, events: usize, current: &Arc<Snapshot>) {
        self.since += events;
        if self.since < self.distance {
            return;
        }
        self.since = 0;
        self.taken.push_back(current.clone());
        if self.bytes() > BYTES {
            let mut second = false;
            self.taken.retain(|_| {
                second = !second;
                !second
            });
            self.distance *= 2;
        }
    }

    /// Versions below the log's floor are not made any more.
    pub(super) fn forget_below(&mut self, floor: u64) {
        while self
            .taken
            .front()
            .is_some_and(|s| s.resource_version < floor)
        {
            self.taken.pop_front();
        }
        self.made.retain(|s| s.resource_version >= floor);
        if self.taken.is_empty() {
            self.distance = EVENTS;
        }
    }

    /// The nearest states at or below and at or above a version.
    pub(super) fn around(&self, version: u64) -> impl Iterator<Item = Arc<Snapshot>> + use<> {
        let above = self.taken.partition_point(|s| s.resource_version < version);
        let below = above.checked_sub(1).and_then(|at| self.taken.get(at));
        let found = [below, self.taken.get(above)].map(|s| s.cloned());
        found.into_iter().flatten()
    }

    pub(super) fn made(&self, version: u64) -> Option<Arc<Snapshot>> {
        let mut made = self.made.iter();
        made.find(|s| s.resource_version == version).cloned()
    }

    pub(super) fn keep_made(&mut self, snapshot: &Arc<Snapshot>) {
        self.made.push_front(snapshot.clone());
        self.made.truncate(MADE);
    }

    /// Bytes that nothing else holds, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.taken.len() * self.distance * BYTES_PER_EVENT
    }

    pub(super) fn len(&self) -> usize {
        self.taken.len() + self.made.len()
    }
}
