//! States at other versions than the store's own: earlier states, which are kept or
//! made, and a later state that was learnt from upstream.

use std::sync::Arc;
use std::time::Instant;

use super::Snapshot;
use super::checkpoints::Checkpoints;
use super::retained_snapshots::{MAX_RETAINED_BYTES, RetainedSnapshots};

/// The states that a store knows besides the current one. Lock order: the log first.
#[derive(Debug, Default)]
pub(super) struct EarlierSnapshots {
    epoch: u64,
    /// Below this version, objects looked different at the same resourceVersion.
    /// Events do not show this, so states below it are not made.
    looks_since: u64,
    checkpoints: Checkpoints,
    retained: RetainedSnapshots,
    /// The newest state that was learnt from upstream, until the store has reached
    /// it.
    later: Option<Arc<Snapshot>>,
}

impl EarlierSnapshots {
    /// Begins another history.
    pub(super) fn reset(&mut self) {
        *self = Self {
            epoch: self.epoch.wrapping_add(1),
            ..Self::default()
        };
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Notes that from `version` on, unchanged objects look different.
    pub(super) fn change_looks(&mut self, version: u64) {
        self.looks_since = version;
        self.later = None;
    }

    pub(super) fn looks_since(&self) -> u64 {
        self.looks_since
    }

    pub(super) fn pass(&mut self, events: usize, current: &Arc<Snapshot>) {
        self.checkpoints.pass(events, current);
        self.later
            .take_if(|later| later.resource_version <= current.resource_version);
    }

    pub(super) fn forget_below(&mut self, floor: u64) {
        self.checkpoints.forget_below(floor.max(self.looks_since));
    }

    /// Drops states that are too old or beyond the bytes allowed.
    pub(super) fn expire(&mut self, now: Instant, floor: u64, evicted: u64) {
        self.forget_below(floor);
        if !self.retained.is_empty() {
            self.retained.expire(now, evicted, MAX_RETAINED_BYTES);
        }
    }

    /// Returns a state that is kept.
    pub(super) fn kept(&self, version: u64) -> Option<Arc<Snapshot>> {
        let retained = self.retained.get(version);
        retained.or_else(|| self.checkpoints.made(version))
    }

    /// Returns the checkpoints before and after a version.
    pub(super) fn around(&self, version: u64) -> impl Iterator<Item = Arc<Snapshot>> + use<> {
        self.checkpoints.around(version)
    }

    /// Keeps a state that was made for a reader. Returns false if its history has
    /// ended, or objects look different since.
    pub(super) fn keep_made(&mut self, made: &Arc<Snapshot>) -> bool {
        let is_known = self.epoch == made.epoch && made.resource_version >= self.looks_since;
        if is_known {
            self.checkpoints.keep_made(made);
        }
        is_known
    }

    /// Retains a state of the present history. See
    /// [`RetainedSnapshots::expire`] for `evicted`.
    pub(super) fn retain(&mut self, snapshot: &Arc<Snapshot>, now: Instant, evicted: u64) {
        if self.epoch == snapshot.epoch {
            self.retained.keep(snapshot, now);
            self.retained.expire(now, evicted, MAX_RETAINED_BYTES);
        }
    }

    /// Keeps a state if it is later than all known states of the same history.
    pub(super) fn keep_later(&mut self, snapshot: &Arc<Snapshot>, current: &Arc<Snapshot>) {
        let newest = self.later.as_ref().unwrap_or(current);
        let is_later = snapshot.resource_version > newest.resource_version;
        if is_later && self.epoch == snapshot.epoch {
            self.later = Some(snapshot.clone());
        }
    }

    pub(super) fn later(&self) -> Option<Arc<Snapshot>> {
        self.later.clone()
    }

    /// Drops the later state and the retained states.
    pub(super) fn drop_retained(&mut self) {
        self.retained = RetainedSnapshots::default();
        self.later = None;
    }

    /// Returns the bytes that only checkpoints hold, roughly.
    pub(super) fn checkpoint_bytes(&self) -> usize {
        self.checkpoints.bytes()
    }

    /// Returns the bytes of objects that only retained states hold, roughly. See
    /// [`RetainedSnapshots::bytes`] for `evicted`.
    pub(super) fn retained_bytes(&self, evicted: u64) -> usize {
        self.retained.bytes(evicted)
    }

    /// Returns the number of states that are kept.
    pub(super) fn len(&self) -> usize {
        let retained = self.retained.len();
        retained.saturating_add(self.checkpoints.len())
    }
}
