//! One change of one object.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use kubernetes_wire::representation::{Envelope, EventType};

use super::StoredObject;
use super::frame::{MadeFrame, REPRESENTATIONS, SharedFrame};
use super::kept_table_frames::{TableFrames, TableShape};

/// The change of the object as a whole. A watcher with a selector may see
/// another change: see `watch::transition`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// The frames of one representation, by event type.
type Frames = [OnceLock<Option<Bytes>>; 3];

/// Frames that are not often asked for, and the bytes that each lacks.
#[derive(Debug, Default)]
struct RareFrames {
    frames: Frames,
    left_out: [AtomicUsize; 3],
}

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
    /// The frames of whole objects, by encoding.
    frames: [Frames; 2],
    /// The frames of other representations. Most events have none.
    rare: OnceLock<Box<[OnceLock<Box<RareFrames>>; REPRESENTATIONS]>>,
    tables: OnceLock<Box<TableFrames>>,
    /// The log's counter of bytes of frames. It is unset until the event is in a
    /// log.
    counted: OnceLock<Arc<AtomicUsize>>,
}

/// About the bytes of an event and its places in the log and topics, without
/// objects.
const EVENT_OVERHEAD_BYTES: usize = 250;

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
            rare: OnceLock::new(),
            tables: OnceLock::new(),
            counted: OnceLock::new(),
        }
    }

    /// Includes the bytes of frames in `bytes` from now on, until the event is
    /// dropped.
    pub(super) fn count_frames(&self, bytes: &Arc<AtomicUsize>) {
        // An event is in one log only.
        let _ = self.counted.set(bytes.clone());
    }

    /// Returns the object for a watcher that sees the event as `seen`. An object
    /// that leaves a selection is shown in its previous state, at the version of the
    /// event. `None` if this cannot be written.
    pub fn shown(&self, seen: EventType, envelope: &Envelope) -> Option<Arc<StoredObject>> {
        let leaves = seen == EventType::Deleted && self.change != Change::Deleted;
        match &self.previous {
            Some(previous) if leaves => previous
                .stamped(self.resource_version, envelope)
                .map(Arc::new),
            _ => Some(self.object.clone()),
        }
    }

    /// Returns the frame for all watchers of the representation that see the event
    /// as `seen`. With `compressed`, the frame is a gzip member. It is made once,
    /// and a failure to make it is remembered.
    pub fn frame(
        &self,
        of: SharedFrame,
        compressed: bool,
        seen: EventType,
        make: impl FnOnce() -> Option<MadeFrame>,
    ) -> Option<Bytes> {
        let bytes = |made: MadeFrame| made.bytes;
        let Some(slot) = slot(seen) else {
            return make().map(bytes);
        };
        let rare = match of.is_usual() && !compressed {
            true => None,
            false => Some(self.rare(of, compressed)),
        };
        let (frames, left_out) = match rare {
            None => (self.frames.get(of.encoding as usize), None),
            Some(rare) => (
                rare.map(|rare| &rare.frames),
                rare.and_then(|rare| rare.left_out.get(slot)),
            ),
        };
        let Some(frame) = frames.and_then(|frames| frames.get(slot)) else {
            return make().map(bytes);
        };
        let make = || {
            let MadeFrame { bytes, left_out: n } = make()?;
            if let Some(counted) = self.counted.get() {
                counted.fetch_add(bytes.len(), Ordering::Relaxed);
            }
            if let Some(left_out) = left_out {
                left_out.store(n, Ordering::Relaxed);
            }
            Some(bytes)
        };
        frame.get_or_init(make).clone()
    }

    /// Returns the bytes of managedFields that the frame lacks, once it is made.
    pub fn left_out(&self, of: SharedFrame, compressed: bool, seen: EventType) -> usize {
        let rare = self.rare(of, compressed);
        let left_out = rare.and_then(|rare| rare.left_out.get(slot(seen)?));
        left_out.map_or(0, |bytes| bytes.load(Ordering::Relaxed))
    }

    /// Returns the frame for all watchers of the same Table. It is made once a
    /// second.
    pub fn table_frame(
        &self,
        shape: TableShape,
        make: impl FnOnce() -> Option<MadeFrame>,
    ) -> Option<MadeFrame> {
        let counted = self.counted.get().map(|bytes| &**bytes);
        let tables = self.tables.get_or_init(Box::default);
        tables.get(shape, counted, make)
    }

    fn rare(&self, of: SharedFrame, compressed: bool) -> Option<&RareFrames> {
        let frames = self.rare.get_or_init(Box::default);
        let frames = frames.get(of.index(compressed))?;
        Some(frames.get_or_init(Box::default))
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
        previous
            .saturating_add(deleted)
            .saturating_add(EVENT_OVERHEAD_BYTES)
    }
}

/// Returns the place of an event type's frame.
fn slot(seen: EventType) -> Option<usize> {
    match seen {
        EventType::Added => Some(0),
        EventType::Modified => Some(1),
        EventType::Deleted => Some(2),
        EventType::Bookmark | EventType::Error => None,
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Some(bytes) = self.counted.get() {
            let rare = self.rare.get().into_iter().flat_map(|rare| rare.iter());
            let rare = rare.filter_map(|frames| Some(&frames.get()?.frames));
            let frames: usize = self
                .frames
                .iter()
                .chain(rare)
                .flatten()
                .filter_map(|f| f.get()?.as_ref())
                .map(Bytes::len)
                .sum();
            let tables = self.tables.get().map_or(0, |tables| tables.bytes());
            bytes.fetch_sub(frames.saturating_add(tables), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use kubernetes_wire::representation::Encoding;

    use super::*;
    use crate::store::FrameKind;
    use crate::store::tests::object;

    #[test]
    fn each_representation_has_frames_of_its_own() {
        let event = Event::new(Change::Added, 1, object(), None, Instant::now());
        let bytes = Arc::new(AtomicUsize::new(0));
        event.count_frames(&bytes);
        let mut kinds = Vec::new();
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            for without_managed_fields in [false, true] {
                for of in [
                    FrameKind::Whole,
                    FrameKind::Metadata,
                    FrameKind::MetadataV1Beta1,
                ] {
                    kinds.push(SharedFrame {
                        of,
                        encoding,
                        without_managed_fields,
                    });
                }
            }
        }
        let all = || {
            let kinds = kinds.iter().flat_map(|of| [(*of, false), (*of, true)]);
            kinds.flat_map(|(of, compressed)| {
                let seen = [EventType::Added, EventType::Modified, EventType::Deleted];
                seen.map(|seen| (of, compressed, seen))
            })
        };
        let text = |n: usize| Bytes::from(format!("{n:02}"));
        for (n, (of, compressed, seen)) in all().enumerate() {
            let made = event.frame(of, compressed, seen, || {
                let (bytes, left_out) = (text(n), n);
                Some(MadeFrame { bytes, left_out })
            });
            assert_eq!(made, Some(text(n)), "{of:?} {compressed}");
        }
        for (n, (of, compressed, seen)) in all().enumerate() {
            let kept = event.frame(of, compressed, seen, || unreachable!());
            assert_eq!(kept, Some(text(n)), "{of:?} {compressed}");
            if of.without_managed_fields {
                assert_eq!(event.left_out(of, compressed, seen), n);
            }
        }
        assert_eq!(bytes.load(Ordering::Relaxed), 2 * all().count());
        drop(event);
        assert_eq!(bytes.load(Ordering::Relaxed), 0);
    }
}
