//! One change of one object.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;

use super::StoredObject;

/// What happened to the object as a whole. A watcher with a selector may see
/// it differently: see `watch::transition`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    /// The type of the watch event.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
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

    /// The frame that every watcher who sees the object go through `change`
    /// gets, made once.
    pub fn frame(&self, change: Change, make: impl FnOnce() -> Bytes) -> Bytes {
        let slot = match change {
            Change::Added => 0,
            Change::Modified => 1,
            Change::Deleted => 2,
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
