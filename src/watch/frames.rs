//! Events as bytes, in each representation a watch can have.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use chrono::Utc;

use super::Encoding;
use crate::negotiation::MetaVersion;
use crate::representation::envelope::watch_frame;
use crate::representation::partial;
use crate::representation::table::{Printer, TableOptions};
use crate::representation::{BookmarkTemplate, Envelope, EventType};
use crate::store::{Event, Store, StoredObject};

const JSON: &str = "application/json";

/// Whole objects as JSON. One frame serves all watchers.
pub struct JsonFrames(pub Arc<Store>);

impl Encoding for JsonFrames {
    fn content_type(&self) -> &'static str {
        JSON
    }

    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        Some(self.0.resource.envelope.watch_frame(seen, &object.item()))
    }

    fn shared(&mut self, seen: EventType, event: &Event) -> Option<Bytes> {
        let envelope = &self.0.resource.envelope;
        Some(event.frame(seen, || envelope.watch_frame(seen, &event.object.item())))
    }

    fn append(&mut self, seen: EventType, object: &StoredObject, out: &mut BytesMut) -> bool {
        let envelope = &self.0.resource.envelope;
        envelope.append_watch_frame(seen, &object.item(), out);
        true
    }

    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes> {
        let template = self.0.resource.bookmark.get()?;
        Some(template.frame(resource_version, initial_events_end))
    }
}

/// An object, as it stands in a list, made into what its watcher asked for.
type Transform = dyn FnMut(&Bytes, &Envelope) -> Option<Bytes> + Send;

/// Each object in another shape. Nothing is shared: the ages in Tables tick.
pub struct TransformedFrames {
    store: Arc<Store>,
    transform: Box<Transform>,
}

impl TransformedFrames {
    /// Tables of one row. Only the first event tells the columns.
    pub fn table(store: Arc<Store>, printer: Arc<Printer>, options: TableOptions) -> Self {
        let mut first = true;
        let transform = move |fragment: &Bytes, envelope: &Envelope| {
            let table = printer
                .event_object(fragment, envelope, options, first, Utc::now())
                .ok()?;
            first = false;
            Some(table.into())
        };
        Self {
            store,
            transform: Box::new(transform),
        }
    }

    /// PartialObjectMetadata.
    pub fn partial(store: Arc<Store>, version: MetaVersion) -> Self {
        let transform = move |fragment: &Bytes, envelope: &Envelope| {
            partial::object(fragment, envelope, version)
        };
        Self {
            store,
            transform: Box::new(transform),
        }
    }

    fn frame(&mut self, seen: EventType, fragment: &Bytes) -> Option<Bytes> {
        let object = (self.transform)(fragment, &self.store.resource.envelope)?;
        Some(watch_frame(seen, &object))
    }
}

impl Encoding for TransformedFrames {
    fn content_type(&self) -> &'static str {
        JSON
    }

    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        self.frame(seen, &object.item())
    }

    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes> {
        let object = bookmark_fragment(&self.store, resource_version, initial_events_end)?;
        self.frame(EventType::Bookmark, &object)
    }
}

/// A bookmark's object in the form objects are stored in.
fn bookmark_fragment(store: &Store, version: u64, initial_events_end: bool) -> Option<Bytes> {
    let template: &BookmarkTemplate = store.resource.bookmark.get()?;
    let object = Bytes::from(template.object(version, initial_events_end));
    store.resource.envelope.fragment(&object)
}
