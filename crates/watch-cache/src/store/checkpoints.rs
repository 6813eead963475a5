//! Earlier states within the log's reach, from which any other state is made
//! with few events.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Snapshot;

/// The number of events between two checkpoints. Applying or undoing half of them
/// takes a fraction of a millisecond.
const EVENTS_PER_CHECKPOINT: usize = 128;

/// The most bytes that the checkpoints of a store may hold. The log holds the
/// objects; this bound is for leaves and nodes, which every event makes anew. At the
/// bound the oldest checkpoint is dropped. A state before it then takes longer to
/// make: some tens of milliseconds if 10,000 events changed most of 150,000 objects.
const MAX_CHECKPOINT_BYTES: usize = 8 << 20;

/// Bytes of a leaf of pointers and the nodes above it.
const BYTES_PER_LEAF: usize = 1200;

/// The number of states made for readers that are kept. Requests for page after page
/// ask for the same version.
const MAX_MADE_STATES: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Checkpoints {
    /// The checkpoints, oldest first.
    taken: VecDeque<Checkpoint>,
    /// Bytes that nothing else holds, roughly.
    bytes: usize,
    /// Events since the last checkpoint.
    since: usize,
    /// States made for readers, latest first.
    made: VecDeque<Arc<Snapshot>>,
}

#[derive(Debug)]
struct Checkpoint {
    snapshot: Arc<Snapshot>,
    /// Bytes that the next checkpoint does not share, roughly.
    bytes: usize,
}

impl Checkpoints {
    /// Notes that `events` events led to the current state.
    pub(super) fn pass(&mut self, events: usize, current: &Arc<Snapshot>) {
        self.since = self.since.saturating_add(events);
        if self.since < EVENTS_PER_CHECKPOINT {
            return;
        }
        // Each event replaces one leaf, which may have been replaced already.
        let leaves = current.objects.leaf_count().min(self.since);
        let bytes = leaves.saturating_mul(BYTES_PER_LEAF);
        self.since = 0;
        self.bytes = self.bytes.saturating_add(bytes);
        self.taken.push_back(Checkpoint {
            snapshot: current.clone(),
            bytes,
        });
        while self.bytes > MAX_CHECKPOINT_BYTES {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.taken.pop_front() {
            self.bytes = self.bytes.saturating_sub(oldest.bytes);
        }
    }

    /// Drops the states below the log's floor.
    pub(super) fn forget_below(&mut self, floor: u64) {
        let old = |c: &Checkpoint| c.snapshot.resource_version < floor;
        while self.taken.front().is_some_and(old) {
            self.forget_oldest();
        }
        self.made.retain(|s| s.resource_version >= floor);
    }

    /// Returns the nearest checkpoints: one below the version, and one at or
    /// above it.
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
        self.made.truncate(MAX_MADE_STATES);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.taken.len().saturating_add(self.made.len())
    }
}
