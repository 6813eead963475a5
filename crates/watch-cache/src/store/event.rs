//! One change of one object.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use kubernetes_wire::representation::{Encoding, EventType};

use super::StoredObject;

/// The change of the object as a whole. A watcher with a selector may see
/// another change: see `watch::transition`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// Frames by encoding and then by event type.
type Frames = [[OnceLock<Option<Bytes>>; 3]; 2];

/// An entry of the log. It is immutable and shared by all watchers.
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
    frames: Frames,
    /// The frames as gzip members. Most events have none.
    compressed: OnceLock<Box<Frames>>,
    /// The counter to which the log adds the bytes of frames. It is unset until
    /// the event is in a log.
    counted: OnceLock<Arc<AtomicUsize>>,
}

/// Bytes of an event and its places in the log and its topics, without objects.
const OVERHEAD: usize = 250;

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
            frames: Frames::default(),
            compressed: OnceLock::new(),
            counted: OnceLock::new(),
        }
    }

    /// Counts the bytes of frames in `bytes` from now on, as long as the event
    /// lives.
    pub(super) fn count_frames(&self, bytes: &Arc<AtomicUsize>) {
        // An event is in one log only.
        let _ = self.counted.set(bytes.clone());
    }

    /// Returns the frame for every watcher of the encoding that sees the event
    /// as `seen`. The frame is made once; a failure to make it is remembered,
    /// too.
    pub fn frame(
        &self,
        encoding: Encoding,
        seen: EventType,
        make: impl FnOnce() -> Option<Bytes>,
    ) -> Option<Bytes> {
        self.keep(&self.frames, encoding, seen, make)
    }

    /// Does the same as [`frame`](Self::frame) for the frame as a gzip member.
    pub fn compressed_frame(
        &self,
        encoding: Encoding,
        seen: EventType,
        make: impl FnOnce() -> Option<Bytes>,
    ) -> Option<Bytes> {
        let frames = self.compressed.get_or_init(Box::default);
        self.keep(frames, encoding, seen, make)
    }

    fn keep(
        &self,
        frames: &Frames,
        encoding: Encoding,
        seen: EventType,
        make: impl FnOnce() -> Option<Bytes>,
    ) -> Option<Bytes> {
        let slot = match seen {
            EventType::Added => 0,
            EventType::Modified => 1,
            EventType::Deleted => 2,
            EventType::Bookmark | EventType::Error => return make(),
        };
        let frames = frames.get(encoding as usize);
        let Some(frame) = frames.and_then(|frames| frames.get(slot)) else {
            return make();
        };
        let make = || {
            let frame = make()?;
            if let Some(bytes) = self.counted.get() {
                bytes.fetch_add(frame.len(), Ordering::Relaxed);
            }
            Some(frame)
        };
        frame.get_or_init(make).clone()
    }

    pub fn size(&self) -> usize {
        self.object.size().saturating_add(64)
    }

    /// Returns the bytes that are in memory only for the history, without
    /// frames. An object is in the current state until a later event, which has
    /// it as `previous`. The object of a deletion event is in no state.
    pub(super) fn held(&self) -> usize {
        let previous = self.previous.as_ref().map_or(0, |o| o.size());
        let deleted = match self.change {
            Change::Deleted => self.object.size(),
            Change::Added | Change::Modified => 0,
        };
        previous.saturating_add(deleted).saturating_add(OVERHEAD)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Some(bytes) = self.counted.get() {
            let compressed = self.compressed.get().map(|frames| frames.iter());
            let frames: usize = self
                .frames
                .iter()
                .chain(compressed.into_iter().flatten())
                .flatten()
                .filter_map(|f| f.get()?.as_ref())
                .map(Bytes::len)
                .sum();
            bytes.fetch_sub(frames, Ordering::Relaxed);
        }
    }
}
