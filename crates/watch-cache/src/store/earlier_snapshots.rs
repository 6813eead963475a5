//! States at other versions than the store's own: earlier states, which are kept or
//! made, and a later state that was learnt from upstream.

use std::sync::Arc;
use std::time::Instant;

use super::checkpoints::Checkpoints;
use super::object_tree::Edit;
use super::retained_snapshots::{MAX_RETAINED_BYTES, RetainedSnapshots};
use super::tree_leaf::Lineage;
use super::{Change, Event, Snapshot, Store};

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

impl Store {
    /// Returns the state at exactly this version. `None` if the version is
    /// above the current one, or the state cannot be known any more: the
    /// history does not reach back so far, the version lies inside a resync, or
    /// a later resync found objects that look different at their old version.
    pub fn snapshot_at(&self, version: u64) -> Option<Arc<Snapshot>> {
        let current = self.snapshot();
        if current.resource_version == version {
            return Some(current);
        }
        let (epoch, near) = {
            let earlier = self.earlier.lock();
            let kept = earlier.retained.get(version);
            if let Some(snapshot) = kept.or_else(|| earlier.checkpoints.made(version)) {
                return Some(snapshot);
            }
            (earlier.epoch, earlier.checkpoints.around(version))
        };
        let (base, to, events) = {
            let log = self.log.read();
            // The snapshot is read again, with the log locked: the log then reaches
            // at least as far.
            let current = self.snapshot();
            if version > current.resource_version {
                return None;
            }
            let to = log.position(version).ok()?;
            near.chain([current])
                .filter(|base| base.epoch == epoch)
                .filter_map(|base| {
                    let (first, last) = if base.cursor.is_before(to) {
                        (base.cursor, to)
                    } else {
                        (to, base.cursor)
                    };
                    // The checkpoint may be older than the log by now.
                    log.has(first).then_some((base, first, last))
                })
                .min_by_key(|(_, first, last)| first.distance(*last))
                .map(|(base, first, last)| (base, to, log.between(first, last)))?
        };
        let back = to.is_before(base.cursor);
        let (edits, departed) = rolled(&events, back);
        let departed = if back {
            base.departed.saturating_sub(departed)
        } else {
            base.departed.saturating_add(departed)
        };
        let made = Arc::new(Snapshot {
            resource_version: version,
            cursor: to,
            objects: base.objects.edit(edits, Lineage::Aside).objects,
            epoch,
            departed,
            foreign: 0,
        });
        let mut earlier = self.earlier.lock();
        if earlier.epoch != epoch || version < earlier.looks_since {
            return None;
        }
        earlier.checkpoints.keep_made(&made);
        Some(made)
    }

    /// Keeps a state answerable by [`snapshot_at`](Self::snapshot_at) for
    /// `RETENTION`, within `MAX_RETAINED_BYTES`. The caller is about to hand out
    /// its version in a continue token.
    pub fn retain(&self, snapshot: &Arc<Snapshot>, now: Instant) {
        let evicted = self.log.read().evicted();
        let mut earlier = self.earlier.lock();
        if earlier.epoch == snapshot.epoch {
            earlier.retained.keep(snapshot, now);
            earlier.retained.expire(now, evicted, MAX_RETAINED_BYTES);
        }
    }

    /// Keeps a state that was learnt from upstream until the store has reached it. A
    /// state that is not later than all known states is ignored.
    pub fn keep_later(&self, snapshot: &Arc<Snapshot>) {
        let mut earlier = self.earlier.lock();
        let current = self.snapshot();
        let newest = earlier.later.as_ref().unwrap_or(&current);
        let is_later = snapshot.resource_version > newest.resource_version;
        if is_later && earlier.epoch == snapshot.epoch {
            earlier.later = Some(snapshot.clone());
        }
    }

    /// Returns the newest known state: the store's own, or a later one. `None` if it
    /// is not later than `version`.
    pub fn later_than(&self, version: u64) -> Option<Arc<Snapshot>> {
        let later = self.earlier.lock().later.clone();
        let current = self.snapshot();
        let newest = match later {
            Some(later) if later.resource_version > current.resource_version => later,
            _ => current,
        };
        (newest.resource_version > version).then_some(newest)
    }
}

/// Returns the edits that `events`, oldest first, made to the state, or with `back`
/// the edits that undo them. Also returns the bytes of the objects that they
/// replaced or deleted.
fn rolled(events: &[Arc<Event>], back: bool) -> (Vec<Edit>, u64) {
    let replaced = |e: &Arc<Event>| e.previous.as_ref().map_or(0, |o| o.size() as u64);
    let departed = events.iter().map(replaced).sum();
    let done = |e: &Arc<Event>| match e.change {
        Change::Deleted => Edit::Remove(e.object.key.clone()),
        Change::Added | Change::Modified => Edit::Put(e.object.clone()),
    };
    let undone = |e: &Arc<Event>| match &e.previous {
        Some(previous) => Edit::Put(previous.clone()),
        None => Edit::Remove(e.object.key.clone()),
    };
    // The last of several edits of one key counts.
    let edits = if back {
        events.iter().rev().map(undone).collect()
    } else {
        events.iter().map(done).collect()
    };
    (edits, departed)
}
