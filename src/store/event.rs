//! One change of one object.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;

use super::StoredObject;
use crate::representation::EventType;

/// What happened to the object as a whole. A watcher with a selector may see
/// it differently: see `watch::transition`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// An entry of the log. Immutable, shared by all watchers.
#[derive(Debug)]
pub struct Event {
    pub change: Change,
    /// Versions in a log strictly increase.
    pub resource_version: u64,
    /// The object after the change; for a deletion its last state.
    pub object: Arc<StoredObject>,
    /// The object before the change, `None` when it was added.
    pub previous: Option<Arc<StoredObject>>,
    pub recorded_at: Instant,
    frames: [OnceLock<Bytes>; 3],
}

impl Event {
    pub(super) fn new(
        change: Change,
        resource_version: u64,
        object: Arc<StoredObject>,
        previous: Option<Arc<StoredObject>>,
        recorded_at: Instant,
    ) -> Self {
        Self {
            change,
            resource_version,
            object,
            previous,
            recorded_at,
            frames: Default::default(),
        }
    }

    /// The frame that every watcher gets who sees the event as one of this
    /// type, made once.
    pub fn frame(&self, seen: EventType, make: impl FnOnce() -> Bytes) -> Bytes {
        let slot = match seen {
            EventType::Added => 0,
            EventType::Modified => 1,
            EventType::Deleted => 2,
            EventType::Bookmark | EventType::Error => return make(),
        };
        match self.frames.get(slot) {
            Some(frame) => frame.get_or_init(make).clone(),
            None => make(),
        }
    }

    pub fn size(&self) -> usize {
        self.object.size() + 64
    }
}
