//! Earlier states of the log's time, from which any other is a short way.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Snapshot;

/// A state is kept each so many events: rolling half as many forward or back
/// takes a fraction of a millisecond.
const EVENTS: usize = 128;

/// What the checkpoints of a store may hold on to. The objects are the log's;
/// this is for leaves and nodes, of which events leave sets behind. At the
/// bound the oldest checkpoint goes: the way to a version before it is longer,
/// some tens of milliseconds if 10,000 events changed most of 150,000 objects.
const BYTES: usize = 8 << 20;

/// A leaf of pointers and the nodes above it.
const BYTES_PER_LEAF: usize = 1200;

/// States made for readers and kept: one page after another asks for the same
/// version.
const MADE: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// Oldest first.
    taken: VecDeque<Checkpoint>,
    /// Bytes that nothing else holds, roughly.
    bytes: usize,
    /// Events since the last one was taken.
    since: usize,
    /// Latest first.
    made: VecDeque<Arc<Snapshot>>,
}

#[derive(Debug)]
struct Checkpoint {
    snapshot: Arc<Snapshot>,
    /// What of it is not the next one's, roughly.
    bytes: usize,
}

impl Checkpoints {
    /// `events` led to the current state.
    pub(super) fn pass(&mut self, events: usize, current: &Arc<Snapshot>) {
        self.since = self.since.saturating_add(events);
        if self.since < EVENTS {
            return;
        }
        // Each event replaces one leaf, perhaps one that is replaced already.
        let leaves = current.objects.leaf_count().min(self.since);
        let bytes = leaves.saturating_mul(BYTES_PER_LEAF);
        self.since = 0;
        self.bytes = self.bytes.saturating_add(bytes);
        self.taken.push_back(Checkpoint {
            snapshot: current.clone(),
            bytes,
        });
        while self.bytes > BYTES {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.taken.pop_front() {
            self.bytes = self.bytes.saturating_sub(oldest.bytes);
        }
    }

    /// Versions below the log's floor are not made any more.
    pub(super) fn forget_below(&mut self, floor: u64) {
        let old = |c: &Checkpoint| c.snapshot.resource_version < floor;
        while self.taken.front().is_some_and(old) {
            self.forget_oldest();
        }
        self.made.retain(|s| s.resource_version >= floor);
    }

    /// The nearest states at or below and at or above a version.
    pub(super) fn around(&self, version: u64) -> impl Iterator<Item = Arc<Snapshot>> + use<> {
        let above = self
            .taken
            .partition_point(|c| c.snapshot.resource_version < version);
        let below = above.checked_sub(1).and_then(|at| self.taken.get(at));
        let found = [below, self.taken.get(above)].map(|c| c.map(|c| c.snapshot.clone()));
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

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.taken.len().saturating_add(self.made.len())
    }
}
