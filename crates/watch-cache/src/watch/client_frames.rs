//! The frames that one client is sent.

use bytes::Bytes;
use kubernetes_wire::representation::EventType;

use super::batch::compressed;
use super::frame_writer::FrameWriter;
use super::step::WatchEnd;
use super::transition::transition;
use crate::store::{Event, Filter, KeyScope, Store, StoredObject, Visible};

/// Writes frames of what one client selects and does not know.
pub(super) struct ClientFrames {
    writer: Box<dyn FrameWriter>,
    filter: Filter,
    /// Batches are gzip members.
    compresses: bool,
    /// The version that the client knows when the watch starts. Only later
    /// events and bookmarks are sent.
    after: u64,
}

impl ClientFrames {
    pub(super) fn new(writer: Box<dyn FrameWriter>, filter: Filter, after: u64) -> Self {
        Self {
            writer,
            filter,
            compresses: false,
            after,
        }
    }

    pub(super) fn after(&self) -> u64 {
        self.after
    }

    /// Shows the objects of this set alone. Returns the selector.
    pub(super) fn show(&mut self, visible: Visible) -> &Filter {
        self.filter.scope = KeyScope::Visible(visible);
        &self.filter
    }

    pub(super) fn set_compressed(&mut self) {
        self.compresses = true;
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.compresses
    }

    pub(super) fn content_type(&self) -> &'static str {
        self.writer.content_type()
    }

    /// Tells whether the next frame differs from the frames after it.
    pub(super) fn is_first(&self) -> bool {
        self.writer.is_first()
    }

    /// Returns the frame of an event of the log, as a gzip member if it
    /// `compresses`. `None` if the client is not shown the event.
    pub(super) fn logged(
        &mut self,
        event: &Event,
        store: &Store,
        compresses: bool,
    ) -> Result<Option<Bytes>, WatchEnd> {
        if event.resource_version <= self.after {
            return Ok(None);
        }
        let Some(seen) = transition(event, &self.filter) else {
            return Ok(None);
        };
        let envelope = &store.resource.envelope;
        let frame = self.writer.logged(event, seen, envelope, compresses);
        frame.map(Some).ok_or(WatchEnd::NotEncodable)
    }

    /// Returns the selector and the writer, for those who write many objects.
    pub(super) fn parts(&mut self) -> (&Filter, &mut dyn FrameWriter) {
        (&self.filter, &mut *self.writer)
    }

    /// Returns the frame of an event that this client alone is sent.
    pub(super) fn own(
        &mut self,
        seen: EventType,
        object: &StoredObject,
    ) -> Result<Bytes, WatchEnd> {
        let frame = self.writer.event(seen, object);
        frame.ok_or(WatchEnd::NotEncodable)
    }

    /// Returns a bookmark. `None` if bookmarks of this resource cannot be
    /// written.
    pub(super) fn bookmark(&mut self, version: u64, initial_events_end: bool) -> Option<Bytes> {
        self.writer.bookmark(version, initial_events_end)
    }

    /// Compresses frames, if the client is sent gzip members.
    pub(super) fn compress(&self, frames: Bytes) -> Result<Bytes, WatchEnd> {
        if !self.compresses {
            return Ok(frames);
        }
        compressed(&frames).ok_or(WatchEnd::NotEncodable)
    }
}
