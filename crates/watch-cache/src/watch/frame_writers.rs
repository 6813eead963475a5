//! Writes a watch's events as whole objects or as Tables.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use kubernetes_wire::negotiation::IncludeObject;
use kubernetes_wire::representation::json_envelope::{Form, watch_frame};
use kubernetes_wire::representation::table::{Printer, TableOptions};
use kubernetes_wire::representation::{
    BookmarkTemplate, Encoding, Envelope, EventType, managed_fields,
};

use super::batch::{compressed, packed};
use crate::store::{Event, SharedFrame, Store, StoredObject, TableShape};

/// Writes events as bytes, for one watcher.
pub trait FrameWriter: Send {
    /// Returns a whole frame. `None` if the object cannot be written in this
    /// representation. The watch then ends.
    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes>;

    /// Returns the representation, if its frames are the same for all watchers
    /// at all times.
    fn shares(&self) -> Option<SharedFrame> {
        None
    }

    /// Tells whether the next frame differs from the frames after it.
    fn is_first(&self) -> bool {
        false
    }

    /// Returns how often an object is read to write it.
    fn passes(&self) -> usize {
        1
    }

    /// Returns the frame of an event of the log, as a gzip member if it
    /// `compresses`. All watchers of the representation share the frame if they
    /// can.
    fn logged(
        &mut self,
        event: &Event,
        seen: EventType,
        envelope: &Envelope,
        compresses: bool,
    ) -> Option<Bytes> {
        let Some(of) = self.shares() else {
            let object = event.shown(seen, envelope)?;
            return packed(self.event(seen, &object)?, compresses);
        };
        let mut plain = || {
            let make = || {
                let object = event.shown(seen, envelope)?;
                self.event(seen, &object)
            };
            event.frame(of, false, seen, make)
        };
        match compresses {
            true => event.frame(of, true, seen, || compressed(&plain()?)),
            false => plain(),
        }
    }

    /// Does the same as [`event`](Self::event), but appends the frame to `out`.
    /// Returns false if the object cannot be written.
    fn append(&mut self, seen: EventType, object: &StoredObject, out: &mut BytesMut) -> bool {
        let frame = self.event(seen, object);
        out.extend_from_slice(frame.as_deref().unwrap_or_default());
        frame.is_some()
    }

    fn encoding(&self) -> Encoding;

    fn content_type(&self) -> &'static str {
        match self.encoding() {
            Encoding::Json => JSON,
            Encoding::Protobuf => PROTOBUF,
        }
    }

    /// Returns a bookmark. `None` if bookmarks of this resource cannot be
    /// written.
    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes>;
}

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Frames of whole objects, perhaps without managedFields. All watchers of an encoding
/// share a frame.
pub struct WholeFrames {
    store: Arc<Store>,
    encoding: Encoding,
    drops_managed_fields: bool,
}

impl WholeFrames {
    pub fn new(store: Arc<Store>, encoding: Encoding) -> Self {
        Self {
            store,
            encoding,
            drops_managed_fields: false,
        }
    }

    #[must_use]
    pub fn without_managed_fields(mut self) -> Self {
        self.drops_managed_fields = true;
        self
    }

    fn envelope(&self) -> &Envelope {
        &self.store.resource.envelope
    }

    fn item(&self, object: &StoredObject) -> Option<Bytes> {
        let mut item = object.item(self.encoding, self.envelope());
        if self.drops_managed_fields {
            item = item.and_then(|item| managed_fields::without(self.encoding, &item));
        }
        if item.is_none() {
            self.store.fail_to_write(self.encoding);
        }
        item
    }
}

impl FrameWriter for WholeFrames {
    fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        let item = self.item(object)?;
        Some(self.envelope().watch_frame(self.encoding, seen, &item))
    }

    fn shares(&self) -> Option<SharedFrame> {
        Some(match self.drops_managed_fields {
            true => SharedFrame::WithoutManagedFields(self.encoding),
            false => SharedFrame::Whole(self.encoding),
        })
    }

    fn append(&mut self, seen: EventType, object: &StoredObject, out: &mut BytesMut) -> bool {
        let Some(item) = self.item(object) else {
            return false;
        };
        let envelope = self.envelope();
        envelope.append_watch_frame(self.encoding, seen, &item, out);
        true
    }

    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes> {
        let template = self.store.resource.bookmark.get()?;
        if self.encoding == Encoding::Json {
            return Some(template.frame(resource_version, initial_events_end));
        }
        let item = bookmark_item(&self.store, resource_version, initial_events_end)?;
        let message = self.envelope().transcoded(&item, self.encoding).ok()?;
        let envelope = self.envelope();
        Some(envelope.watch_frame(self.encoding, EventType::Bookmark, &message))
    }
}

/// Frames of Tables, as JSON. The watchers of an event share a frame for a
/// second, because ages change. The first frame of a watch also has the
/// columns.
pub struct TableFrames {
    store: Arc<Store>,
    printer: Arc<Printer>,
    options: TableOptions,
    first: bool,
}

impl TableFrames {
    pub fn new(store: Arc<Store>, printer: Arc<Printer>, options: TableOptions) -> Self {
        Self {
            store,
            printer,
            options,
            first: true,
        }
    }

    fn row(
        &self,
        seen: EventType,
        item: &Bytes,
        envelope: &Envelope,
        now: DateTime<Utc>,
    ) -> Option<Bytes> {
        let table = self
            .printer
            .event_object(item, envelope, self.options, self.first, now);
        Some(watch_frame(seen, &table.ok()?))
    }

    /// Notes that the watch has the columns, if `frame` was written.
    fn sent(&mut self, frame: Option<Bytes>) -> Option<Bytes> {
        self.first &= frame.is_none();
        frame
    }
}

impl FrameWriter for TableFrames {
    fn encoding(&self) -> Encoding {
        Encoding::Json
    }

    fn is_first(&self) -> bool {
        self.first
    }

    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        let envelope = &self.store.resource.envelope;
        let frame = self.row(seen, &object.json(envelope)?, envelope, Utc::now());
        self.sent(frame)
    }

    fn passes(&self) -> usize {
        self.printer.passes()
    }

    fn logged(
        &mut self,
        event: &Event,
        seen: EventType,
        envelope: &Envelope,
        compresses: bool,
    ) -> Option<Bytes> {
        let now = Utc::now();
        let shape = TableShape {
            printer: self.printer.clone(),
            options: self.options,
            first: self.first,
            compressed: compresses,
            seen,
            second: now.timestamp(),
        };
        let frame = event.table_frame(shape, || {
            let item = event.shown(seen, envelope)?.json(envelope)?;
            packed(self.row(seen, &item, envelope, now)?, compresses)
        });
        self.sent(frame)
    }

    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes> {
        let (store, version) = (&self.store, resource_version);
        let (item, envelope) = match self.options.include {
            IncludeObject::Metadata => bookmark_of_metadata(store, version, initial_events_end)?,
            _ => {
                let item = bookmark_item(store, version, initial_events_end)?;
                (item, Cow::Borrowed(&store.resource.envelope))
            }
        };
        let frame = self.row(EventType::Bookmark, &item, &envelope, Utc::now());
        self.sent(frame)
    }
}

/// Returns a bookmark's object as JSON, in the form of stored objects.
pub(super) fn bookmark_item(
    store: &Store,
    version: u64,
    initial_events_end: bool,
) -> Option<Bytes> {
    let template: &BookmarkTemplate = store.resource.bookmark.get()?;
    let object = Bytes::from(template.object(version, initial_events_end));
    store.resource.envelope.fragment(&object)
}

/// Does the same as [`bookmark_item`] for a watch that shows metadata. Also
/// returns the envelope to read the item with.
pub(super) fn bookmark_of_metadata(
    store: &Store,
    version: u64,
    initial_events_end: bool,
) -> Option<(Bytes, Cow<'_, Envelope>)> {
    let envelope = &store.resource.envelope;
    if !store.presentation().writes_null_times {
        let item = bookmark_item(store, version, initial_events_end)?;
        return Some((item, Cow::Borrowed(envelope)));
    }
    let template = store.resource.bookmark.get()?.of_metadata_before_1_34();
    let object = template.object(version, initial_events_end);
    let item = envelope.fragment(&object.into())?;
    // With this form, the metadata stays as the template writes it.
    let mut envelope = envelope.clone();
    envelope.form = Form::Struct;
    Some((item, Cow::Owned(envelope)))
}
