//! Bytes that several objects share.
//!
//! Once a leaf's items are joined for lists, a second copy of each would be
//! waste: the objects' own bytes become slices of the joined items. A slice
//! keeps all of its buffer in memory. Two rules limit that: an object that
//! leaves the current state copies its bytes out of the buffer; when less than
//! half of the buffer is then in use, the rest moves out too.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::ObjectKey;
use super::demanded_forms::Unasked;

/// The bytes that leaves hold besides their objects, over all states of a store.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Bytes that can be made again.
    pub(super) derived: AtomicUsize,
    /// Bytes of buffers that no object uses any more.
    pub(super) stale: AtomicUsize,
    /// The time since lists of any leaf were asked for, by encoding.
    pub(super) unasked: [Unasked; 2],
}

/// The joined items of a leaf, as seen from the objects in them.
#[derive(Debug)]
pub(super) struct Buffer {
    /// Keys of the first and the last object that were joined.
    pub(super) first: ObjectKey,
    pub(super) last: ObjectKey,
    joined: Bytes,
    /// The bytes of all items, without the prefixes between them.
    length: usize,
    /// The bytes of `length` that can be made again.
    derived: usize,
    live: AtomicUsize,
    tally: Arc<Tally>,
}

impl Buffer {
    /// Makes a buffer for items that are about to move in. They have `length` bytes,
    /// of which `derived` can be made again.
    pub(super) fn new(
        [first, last]: [ObjectKey; 2],
        joined: Bytes,
        length: usize,
        derived: usize,
        tally: Arc<Tally>,
    ) -> Arc<Self> {
        tally.derived.fetch_add(derived, Ordering::Relaxed);
        Arc::new(Self {
            first,
            last,
            joined,
            length,
            derived,
            live: AtomicUsize::new(length),
            tally,
        })
    }

    pub(super) fn slice(&self, at: Range<usize>) -> Bytes {
        self.joined.slice(at)
    }

    /// Notes that an object of this length moved out.
    pub(super) fn release(&self, length: usize) {
        self.live.fetch_sub(length, Ordering::Relaxed);
        self.tally.stale.fetch_add(length, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn is_mostly_stale(&self) -> bool {
        self.live.load(Ordering::Relaxed) < self.length / 2
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let stale = self.length.saturating_sub(*self.live.get_mut());
        self.tally.stale.fetch_sub(stale, Ordering::Relaxed);
        self.tally
            .derived
            .fetch_sub(self.derived, Ordering::Relaxed);
    }
}
