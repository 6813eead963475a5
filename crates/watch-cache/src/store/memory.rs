//! The memory of a store, and the parts of it that are given up when memory is
//! short.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use kubernetes_wire::representation::Encoding;

use super::demanded_forms::KEPT_ROUNDS;
use super::{Store, StoreWriter};

/// The bytes that a store holds on to, roughly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The current state, the unused parts of shared buffers, and the values that
    /// code outside the store made from the objects.
    pub objects: usize,
    /// Events, objects that are not current, and checkpoints.
    pub history: usize,
    /// Values that leaves can make again.
    pub derived: usize,
    /// Objects that only retained states hold.
    pub retained: usize,
    /// States that are kept besides the current one.
    pub snapshots: usize,
}

impl Memory {
    /// Returns the sum of all bytes.
    pub fn total(&self) -> usize {
        self.objects
            .saturating_add(self.history)
            .saturating_add(self.derived)
            .saturating_add(self.retained)
    }
}

impl Store {
    pub fn memory(&self) -> Memory {
        let current = self.snapshot();
        let (history, evicted) = {
            let log = self.log.read();
            (log.bytes(), log.evicted())
        };
        let earlier = self.earlier.lock();
        let tally = current.objects.tally();
        let stale = tally.stale.load(Ordering::Relaxed);
        Memory {
            objects: current
                .bytes()
                .saturating_add(stale)
                .saturating_add(self.beside.load(Ordering::Relaxed)),
            history: history.saturating_add(earlier.checkpoint_bytes()),
            derived: tally.derived.load(Ordering::Relaxed),
            retained: earlier.retained_bytes(evicted),
            snapshots: earlier.len(),
        }
    }

    /// Begins to count the bytes of a value that code outside the store makes from the
    /// objects.
    pub fn beside(&self) -> BytesBeside {
        BytesBeside {
            all: self.beside.clone(),
            own: 0,
        }
    }
}

/// The bytes of a value that code outside a store made from its objects. They are part
/// of the store's memory until this is dropped.
#[derive(Debug)]
pub struct BytesBeside {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl BytesBeside {
    pub fn set(&mut self, bytes: usize) {
        self.all.fetch_add(bytes, Ordering::Relaxed);
        self.all.fetch_sub(self.own, Ordering::Relaxed);
        self.own = bytes;
    }
}

impl Drop for BytesBeside {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl StoreWriter {
    /// Drops the values that leaves can make again. It is called when memory is
    /// short.
    pub(crate) fn shed_derived(&self) {
        let Some(store) = self.store() else { return };
        for leaf in store.snapshot().objects.leaves() {
            leaf.shed();
        }
    }

    /// Counts a round, and drops the values of leaves that nobody used for
    /// [`KEPT_ROUNDS`].
    pub(crate) fn shed_unused(&self) {
        let Some(store) = self.store() else { return };
        let current = store.snapshot();
        let objects = &current.objects;
        for leaf in objects.leaves() {
            leaf.shed_unused();
        }
        // The objects of a leaf may have kept bytes for more rounds than the leaf
        // exists.
        for (encoding, unasked) in Encoding::ALL.into_iter().zip(&objects.tally().unasked) {
            if unasked.pass_round() == KEPT_ROUNDS {
                for leaf in objects.leaves() {
                    leaf.shed_objects_in(encoding);
                }
            }
        }
    }

    /// Drops the oldest events until the history holds at most `bytes`. Events
    /// recorded at `keep` or later stay. Watchers that still needed dropped events
    /// are closed. It is called when memory is short.
    pub(crate) fn trim_history(&self, bytes: usize, keep: Instant) {
        let Some(store) = self.store() else { return };
        let floor = {
            let mut log = store.log.write();
            log.trim(bytes, keep);
            log.floor()
        };
        store.earlier.lock().forget_below(floor);
    }

    /// Drops the later state, and the states that only continue tokens may ask for.
    /// Lists with these tokens go on at upstream. It is called when memory is short.
    pub(crate) fn drop_retained(&self) {
        if let Some(store) = self.store() {
            store.earlier.lock().drop_retained();
        }
    }
}
