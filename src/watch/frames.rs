//! Events as bytes, in each representation a watch can have.

use std::sync::Arc;

use bytes::Bytes;
use chrono::Utc;

use super::Encoding;
use crate::negotiation::MetaVersion;
use crate::representation::envelope::watch_frame;
use crate::representation::partial;
use crate::representation::table::{Printer, TableOptions};
use crate::representation::{BookmarkTemplate, EventType};
use crate::store::{Event, Store, StoredObject};

const JSON: &str = "application/json";

/// Whole objects as JSON. One frame serves all watchers.
pub struct JsonFrames(pub Arc<Store>);

impl Encoding for JsonFrames {
    fn content_type(&self) -> &'static str {
        JSON
    }

    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        Some(self.0.resource.envelope.watch_frame(seen, &object.item))
    }

    fn shared(&mut self, seen: EventType, event: &Event) -> Option<Bytes> {
        let envelope = &self.0.resource.envelope;
        Some(event.frame(seen, || envelope.watch_frame(seen, &event.object.item)))
    }

    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes> {
        let template = self.0.resource.bookmark.get()?;
        Some(template.frame(resource_version, initial_events_end))
    }
}

/// Each object as a Table of one row. Ages tick, so nothing is shared.
pub struct TableFrames {
    store: Arc<Store>,
    printer: Arc<Printer>,
    options: TableOptions,
    /// Only the first event tells the columns.
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

    fn frame(&mut self, seen: EventType, fragment: &Bytes) -> Option<Bytes> {
        let envelope = &self.store.resource.envelope;
        let table = self
            .printer
            .event_object(fragment, envelope, self.options, self.first, Utc::now())
            .ok()?;
        self.first = false;
        Some(watch_frame(seen, &table))
    }
}

impl Encoding for TableFrames {
    fn content_type(&self) -> &'static str {
        JSON
    }

    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        self.frame(seen, &object.item)
    }

    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes> {
        let object = bookmark_fragment(&self.store, resource_version, initial_events_end)?;
        self.frame(EventType::Bookmark, &object)
    }
}

/// Each object as its metadata.
pub struct PartialFrames {
    pub store: Arc<Store>,
    pub version: MetaVersion,
}

impl PartialFrames {
    fn frame(&self, seen: EventType, fragment: &Bytes) -> Option<Bytes> {
        let object = partial::object(fragment, &self.store.resource.envelope, self.version)?;
        Some(watch_frame(seen, &object))
    }
}

impl Encoding for PartialFrames {
    fn content_type(&self) -> &'static str {
        JSON
    }

    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        self.frame(seen, &object.item)
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
