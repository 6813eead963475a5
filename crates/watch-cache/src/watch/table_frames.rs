//! Writes a watch's events as Tables.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use kubernetes_wire::negotiation::IncludeObject;
use kubernetes_wire::representation::json_envelope::watch_frame;
use kubernetes_wire::representation::table::{Printer, TableOptions};
use kubernetes_wire::representation::{Encoding, Envelope, EventType};

use super::FrameWriter;
use super::batch::packed;
use super::bookmark_items::{bookmark_item, bookmark_of_metadata};
use super::frame_writer::cut;
use crate::LeftOut;
use crate::store::{Event, MadeFrame, Store, StoredObject, TableShape};

/// Frames of Tables, as JSON. The watchers of an event share a frame for a
/// second, because ages change. The first frame of a watch also has the
/// columns.
pub struct TableFrames {
    store: Arc<Store>,
    printer: Arc<Printer>,
    options: TableOptions,
    left_out: Option<LeftOut>,
    first: bool,
}

impl TableFrames {
    pub fn new(store: Arc<Store>, printer: Arc<Printer>, options: TableOptions) -> Self {
        Self {
            store,
            printer,
            options,
            left_out: None,
            first: true,
        }
    }

    /// Leaves managedFields out, and counts their bytes.
    #[must_use]
    pub fn leaving_out(mut self, left_out: Option<LeftOut>) -> Self {
        self.left_out = left_out;
        self
    }

    /// Makes the frame of an object. What a Table without objects lacks is not counted.
    fn frame(
        &self,
        seen: EventType,
        object: &StoredObject,
        now: DateTime<Utc>,
    ) -> Option<MadeFrame> {
        let envelope = &self.store.resource.envelope;
        let item = object.json(envelope)?;
        let (item, left_out) = cut(item, Encoding::Json, self.left_out.as_ref())?;
        let left_out = match self.options.include {
            IncludeObject::None => 0,
            IncludeObject::Metadata | IncludeObject::Object => left_out,
        };
        let bytes = self.row(seen, &item, envelope, now)?;
        Some(MadeFrame { bytes, left_out })
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
    fn sent<T>(&mut self, frame: Option<T>) -> Option<T> {
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

    fn left_out(&self) -> Option<&LeftOut> {
        self.left_out.as_ref()
    }

    fn make(&mut self, seen: EventType, object: &StoredObject) -> Option<MadeFrame> {
        let frame = self.frame(seen, object, Utc::now());
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
            without_managed_fields: self.left_out.is_some(),
            first: self.first,
            compressed: compresses,
            seen,
            second: now.timestamp(),
        };
        let frame = event.table_frame(shape, || {
            let made = self.frame(seen, &*event.shown(seen, envelope)?, now)?;
            let bytes = packed(made.bytes, compresses)?;
            Some(MadeFrame { bytes, ..made })
        });
        let made = self.sent(frame)?;
        if let Some(left_out) = &self.left_out {
            left_out.add(made.left_out);
        }
        Some(made.bytes)
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
