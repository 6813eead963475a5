//! The work that a watch may do before other tasks have their turn.

use std::sync::Arc;

use crate::store::StoredObject;

/// The work between two turns of other tasks: the number of objects, and the
/// bytes that are read of them for selectors and to write them. Each takes a
/// few milliseconds at most.
const LOOKED_AT_OBJECTS: usize = 10_000;
const LOOKED_AT_BYTES: usize = 1 << 20;
/// A leaf that is passed over counts as so many objects: what tells that nothing in it
/// matches may have to be made.
const PASSED_OVER: usize = 8;

/// Counts the work since other tasks had their turn.
#[derive(Default)]
pub(super) struct LookedAt {
    objects: usize,
    bytes: usize,
}

impl LookedAt {
    pub(super) fn is_enough(&self) -> bool {
        self.objects >= LOOKED_AT_OBJECTS || self.bytes >= LOOKED_AT_BYTES
    }

    /// Tells whether so many objects may be written at once.
    pub(super) fn is_allowed(objects: &[Arc<StoredObject>]) -> bool {
        let bytes: usize = objects.iter().map(|object| object.size()).sum();
        bytes <= LOOKED_AT_BYTES
    }

    pub(super) fn test(&mut self, object: &StoredObject) {
        self.objects = self.objects.saturating_add(1);
        self.bytes = self.bytes.saturating_add(object.selected_bytes());
    }

    /// Adds a leaf without an object that matches.
    pub(super) fn pass_over(&mut self) {
        self.objects = self.objects.saturating_add(PASSED_OVER);
    }

    /// Adds an object that is read `passes` times to write it.
    pub(super) fn write(&mut self, object: &StoredObject, passes: usize) {
        let bytes = object.size().saturating_mul(passes);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}
