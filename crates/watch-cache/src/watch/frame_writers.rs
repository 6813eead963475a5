//! Writes events as bytes: whole objects, and Tables.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use chrono::Utc;
use kubernetes_wire::negotiation::IncludeObject;
use kubernetes_wire::representation::json_envelope::{Form, watch_frame};
use kubernetes_wire::representation::table::{Printer, TableOptions};
use kubernetes_wire::representation::{BookmarkTemplate, Encoding, Envelope, EventType};

use super::FrameWriter;
use crate::store::{SharedFrame, Store, StoredObject};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Returns the content type of a watch's frames of objects.
pub(super) fn content_type(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Json => JSON,
        Encoding::Protobuf => PROTOBUF,
    }
}

/// Frames of whole objects. All watchers of an encoding share a frame.
pub struct WholeFrames {
    store: Arc<Store>,
    encoding: Encoding,
}

impl WholeFrames {
    pub fn new(store: Arc<Store>, encoding: Encoding) -> Self {
        Self { store, encoding }
    }

    fn envelope(&self) -> &Envelope {
        &self.store.resource.envelope
    }

    fn item(&self, object: &StoredObject) -> Option<Bytes> {
        let item = object.item(self.encoding, self.envelope());
        if item.is_none() {
            self.store.fail_to_write(self.encoding);
        }
        item
    }
}

impl FrameWriter for WholeFrames {
    fn content_type(&self) -> &'static str {
        content_type(self.encoding)
    }

    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        let item = self.item(object)?;
        Some(self.envelope().watch_frame(self.encoding, seen, &item))
    }

    fn shares(&self) -> Option<SharedFrame> {
        Some(SharedFrame::Whole(self.encoding))
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

/// Makes a list item into a Table of one row.
type Print = dyn FnMut(&Bytes, &Envelope) -> Option<Bytes> + Send;

/// Frames of Tables, as JSON. No frame is shared, because the ages change, and
/// because the first one of a watch has the columns.
pub struct TableFrames {
    store: Arc<Store>,
    print: Box<Print>,
    /// Tells that rows show only the metadata of their objects.
    of_metadata: bool,
}

impl TableFrames {
    pub fn new(store: Arc<Store>, printer: Arc<Printer>, options: TableOptions) -> Self {
        let mut first = true;
        let print = move |item: &Bytes, envelope: &Envelope| {
            let table = printer
                .event_object(item, envelope, options, first, Utc::now())
                .ok()?;
            first = false;
            Some(table.into())
        };
        Self {
            store,
            print: Box::new(print),
            of_metadata: options.include == IncludeObject::Metadata,
        }
    }
}

/// Returns the frame of a Table of one row.
fn row(print: &mut Print, seen: EventType, item: &Bytes, envelope: &Envelope) -> Option<Bytes> {
    Some(watch_frame(seen, &print(item, envelope)?))
}

impl FrameWriter for TableFrames {
    fn content_type(&self) -> &'static str {
        JSON
    }

    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        let envelope = &self.store.resource.envelope;
        row(&mut self.print, seen, &object.json(envelope)?, envelope)
    }

    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes> {
        let (seen, store) = (EventType::Bookmark, &self.store);
        if self.of_metadata {
            let (item, envelope) =
                bookmark_of_metadata(store, resource_version, initial_events_end)?;
            return row(&mut self.print, seen, &item, &envelope);
        }
        let item = bookmark_item(store, resource_version, initial_events_end)?;
        row(&mut self.print, seen, &item, &store.resource.envelope)
    }
}

/// Returns a bookmark's object as JSON, in the form in which objects are
/// stored.
pub(super) fn bookmark_item(
    store: &Store,
    version: u64,
    initial_events_end: bool,
) -> Option<Bytes> {
    let template: &BookmarkTemplate = store.resource.bookmark.get()?;
    let object = Bytes::from(template.object(version, initial_events_end));
    store.resource.envelope.fragment(&object)
}

/// Does the same as [`bookmark_item`] for the bookmark of a watch that shows
/// metadata. Also returns the envelope that the item is read with.
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
    // The metadata stays as the template writes it.
    let mut envelope = envelope.clone();
    envelope.form = Form::Struct;
    Some((item, Cow::Owned(envelope)))
}
