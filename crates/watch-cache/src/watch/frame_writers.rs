//! Writes events as bytes, in each representation that a watch can have.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use chrono::Utc;
use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::json_envelope::{Form, watch_frame};
use kubernetes_wire::representation::protobuf_envelope::Type;
use kubernetes_wire::representation::table::{Printer, TableOptions};
use kubernetes_wire::representation::{
    BookmarkTemplate, Encoding, Envelope, EventType, partial_object_metadata,
    partial_object_metadata_protobuf,
};

use super::FrameWriter;
use super::session::compressed;
use crate::store::{Event, Store, StoredObject};

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";

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
        match self.encoding {
            Encoding::Json => JSON,
            Encoding::Protobuf => PROTOBUF,
        }
    }

    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        let item = self.item(object)?;
        Some(self.envelope().watch_frame(self.encoding, seen, &item))
    }

    fn shared(&mut self, seen: EventType, event: &Event) -> Option<Bytes> {
        event.frame(self.encoding, seen, || self.event(seen, &event.object))
    }

    fn shared_compressed(&mut self, seen: EventType, event: &Event) -> Option<Bytes> {
        event.compressed_frame(self.encoding, seen, || {
            compressed(&self.shared(seen, event)?)
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

/// Frames of PartialObjectMetadata in protobuf.
pub struct PartialMessageFrames {
    store: Arc<Store>,
    version: MetaVersion,
    kind: Type,
}

impl PartialMessageFrames {
    pub fn new(store: Arc<Store>, version: MetaVersion) -> Self {
        Self {
            store,
            version,
            kind: Type::new(version.api_version(), "PartialObjectMetadata"),
        }
    }

    fn frame(&self, seen: EventType, encoding: Encoding, item: &Bytes) -> Option<Bytes> {
        let envelope = &self.store.resource.envelope;
        let message = partial_object_metadata_protobuf::of(encoding, item, envelope, self.version);
        if message.is_none() {
            self.store.fail_to_write(Encoding::Protobuf);
        }
        Some(self.kind.watch_frame(seen, &message?))
    }
}

impl FrameWriter for PartialMessageFrames {
    fn content_type(&self) -> &'static str {
        PROTOBUF
    }

    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        let encoding = object.encoding();
        let item = object.item(encoding, &self.store.resource.envelope)?;
        self.frame(seen, encoding, &item)
    }

    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes> {
        let item = bookmark_item(&self.store, resource_version, initial_events_end)?;
        self.frame(EventType::Bookmark, Encoding::Json, &item)
    }
}

/// Makes a list item into the object that the watcher asked for.
type Transform = dyn FnMut(&Bytes, &Envelope) -> Option<Bytes> + Send;

/// Frames of objects in another shape, as JSON. No frame is shared, because the
/// ages in Tables change.
pub struct TransformedFrames {
    store: Arc<Store>,
    transform: Box<Transform>,
    /// Tells that only the metadata of an object is shown.
    of_metadata: bool,
}

impl TransformedFrames {
    /// Makes Tables of one row. Only the first event has the columns.
    pub fn table(store: Arc<Store>, printer: Arc<Printer>, options: TableOptions) -> Self {
        let mut first = true;
        let transform = move |item: &Bytes, envelope: &Envelope| {
            let table = printer
                .event_object(item, envelope, options, first, Utc::now())
                .ok()?;
            first = false;
            Some(table.into())
        };
        Self {
            store,
            transform: Box::new(transform),
            of_metadata: options.include == IncludeObject::Metadata,
        }
    }

    /// Makes PartialObjectMetadata.
    pub fn partial(store: Arc<Store>, version: MetaVersion) -> Self {
        let transform = move |item: &Bytes, envelope: &Envelope| {
            partial_object_metadata::object(item, envelope, version)
        };
        Self {
            store,
            transform: Box::new(transform),
            of_metadata: true,
        }
    }

    fn frame(&mut self, seen: EventType, item: &Bytes) -> Option<Bytes> {
        let object = (self.transform)(item, &self.store.resource.envelope)?;
        Some(watch_frame(seen, &object))
    }
}

impl FrameWriter for TransformedFrames {
    fn content_type(&self) -> &'static str {
        JSON
    }

    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        let item = object.json(&self.store.resource.envelope)?;
        self.frame(seen, &item)
    }

    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes> {
        let (seen, store) = (EventType::Bookmark, &self.store);
        if !self.of_metadata || !store.presentation().writes_null_times {
            let item = bookmark_item(store, resource_version, initial_events_end)?;
            return self.frame(seen, &item);
        }
        let template = store.resource.bookmark.get()?.of_metadata_before_1_34();
        let object = template.object(resource_version, initial_events_end);
        let mut envelope = store.resource.envelope.clone();
        let item = envelope.fragment(&object.into())?;
        // The metadata stays as the template writes it.
        envelope.form = Form::Struct;
        let object = (self.transform)(&item, &envelope)?;
        Some(watch_frame(seen, &object))
    }
}

/// Returns a bookmark's object as JSON, in the form in which objects are
/// stored.
fn bookmark_item(store: &Store, version: u64, initial_events_end: bool) -> Option<Bytes> {
    let template: &BookmarkTemplate = store.resource.bookmark.get()?;
    let object = Bytes::from(template.object(version, initial_events_end));
    store.resource.envelope.fragment(&object)
}
