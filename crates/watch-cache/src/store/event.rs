//! One change of one object.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use bytes::Bytes;
use kubernetes_wire::representation::{Encoding, Envelope, EventType};

use super::StoredObject;
use super::table_frames::{TableFrames, TableShape};

/// The change of the object as a whole. A watcher with a selector may see
/// another change: see `watch::transition`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// A representation whose frames all watchers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedFrame {
    Whole(Encoding),
    WithoutManagedFields(Encoding),
    /// PartialObjectMetadata of meta.k8s.io/v1.
    Metadata(Encoding),
    MetadataV1Beta1(Encoding),
}

/// The frames of one representation, by event type.
type Frames = [OnceLock<Option<Bytes>>; 3];

/// The number of representations that are not often asked for: in each encoding, two
/// versions of metadata and objects without managedFields, and all of these and whole
/// objects as gzip members.
const RARE_REPRESENTATIONS: usize = 14;

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
    rare: OnceLock<Box<[OnceLock<Box<Frames>>; RARE_REPRESENTATIONS]>>,
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
        make: impl FnOnce() -> Option<Bytes>,
    ) -> Option<Bytes> {
        let slot = match seen {
            EventType::Added => 0,
            EventType::Modified => 1,
            EventType::Deleted => 2,
            EventType::Bookmark | EventType::Error => return make(),
        };
        let frames = self.frames_of(of, compressed);
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

    /// Returns the frame for all watchers of the same Table. It is made once a
    /// second.
    pub fn table_frame(
        &self,
        shape: TableShape,
        make: impl FnOnce() -> Option<Bytes>,
    ) -> Option<Bytes> {
        let counted = self.counted.get().map(|bytes| &**bytes);
        let tables = self.tables.get_or_init(Box::default);
        tables.get(shape, counted, make)
    }

    fn frames_of(&self, of: SharedFrame, compressed: bool) -> Option<&Frames> {
        let (first, encoding) = match (of, compressed) {
            (SharedFrame::Whole(encoding), false) => return self.frames.get(encoding as usize),
            (SharedFrame::Whole(encoding), true) => (0, encoding),
            (SharedFrame::Metadata(encoding), false) => (2, encoding),
            (SharedFrame::Metadata(encoding), true) => (4, encoding),
            (SharedFrame::MetadataV1Beta1(encoding), false) => (6, encoding),
            (SharedFrame::MetadataV1Beta1(encoding), true) => (8, encoding),
            (SharedFrame::WithoutManagedFields(encoding), false) => (10, encoding),
            (SharedFrame::WithoutManagedFields(encoding), true) => (12, encoding),
        };
        let rare = (encoding as usize).saturating_add(first);
        let frames = self.rare.get_or_init(Box::default).get(rare)?;
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

impl Drop for Event {
    fn drop(&mut self) {
        if let Some(bytes) = self.counted.get() {
            let rare = self.rare.get().into_iter().flat_map(|rare| rare.iter());
            let rare = rare.filter_map(|frames| Some(&**frames.get()?));
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
    use super::*;
    use crate::store::tests::object;

    #[test]
    fn each_representation_has_frames_of_its_own() {
        let event = Event::new(Change::Added, 1, object(), None, Instant::now());
        let bytes = Arc::new(AtomicUsize::new(0));
        event.count_frames(&bytes);
        let mut kinds = Vec::new();
        for encoding in [Encoding::Json, Encoding::Protobuf] {
            kinds.push(SharedFrame::Whole(encoding));
            kinds.push(SharedFrame::WithoutManagedFields(encoding));
            kinds.push(SharedFrame::Metadata(encoding));
            kinds.push(SharedFrame::MetadataV1Beta1(encoding));
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
            let made = event.frame(of, compressed, seen, || Some(text(n)));
            assert_eq!(made, Some(text(n)), "{of:?} {compressed}");
        }
        for (n, (of, compressed, seen)) in all().enumerate() {
            let kept = event.frame(of, compressed, seen, || unreachable!());
            assert_eq!(kept, Some(text(n)), "{of:?} {compressed}");
        }
        assert_eq!(bytes.load(Ordering::Relaxed), 2 * all().count());
        drop(event);
        assert_eq!(bytes.load(Ordering::Relaxed), 0);
    }
}
