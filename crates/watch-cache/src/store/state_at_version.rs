//! The state at a version that the store has passed, or has not reached yet.

use std::sync::Arc;
use std::time::Instant;

use super::object_tree::Edit;
use super::tree_leaf::Lineage;
use super::{Change, Event, Snapshot, Store};

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
            if let Some(snapshot) = earlier.kept(version) {
                return Some(snapshot);
            }
            (earlier.epoch(), earlier.around(version))
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
        let is_known = self.earlier.lock().keep_made(&made);
        is_known.then_some(made)
    }

    /// Keeps a state answerable by [`snapshot_at`](Self::snapshot_at) for
    /// `RETENTION`, within `MAX_RETAINED_BYTES`. The caller is about to hand out
    /// its version in a continue token.
    pub fn retain(&self, snapshot: &Arc<Snapshot>, now: Instant) {
        let evicted = self.log.read().evicted();
        self.earlier.lock().retain(snapshot, now, evicted);
    }

    /// Keeps a state that was learnt from upstream until the store has reached it. A
    /// state that is not later than all known states is ignored.
    pub fn keep_later(&self, snapshot: &Arc<Snapshot>) {
        let mut earlier = self.earlier.lock();
        earlier.keep_later(snapshot, &self.snapshot());
    }

    /// Returns the newest known state: the store's own, or a later one. `None` if it
    /// is not later than `version`.
    pub fn later_than(&self, version: u64) -> Option<Arc<Snapshot>> {
        let later = self.earlier.lock().later();
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
