//! Writes a watch's events as whole objects.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kubernetes_wire::representation::{Encoding, Envelope, EventType};

use super::FrameWriter;
use super::bookmark_items::bookmark_item;
use super::frame_writer::cut;
use crate::LeftOut;
use crate::store::{
    FrameKind, ItemsWithoutManagedFields, Leaf, MadeFrame, SharedFrame, Store, StoredObject,
};

/// Frames of whole objects, perhaps without managedFields. All watchers of an encoding
/// share a frame.
pub struct WholeFrames {
    store: Arc<Store>,
    encoding: Encoding,
    left_out: Option<LeftOut>,
}

impl WholeFrames {
    pub fn new(store: Arc<Store>, encoding: Encoding) -> Self {
        Self {
            store,
            encoding,
            left_out: None,
        }
    }

    /// Leaves managedFields out, and counts their bytes.
    #[must_use]
    pub fn leaving_out(mut self, left_out: Option<LeftOut>) -> Self {
        self.left_out = left_out;
        self
    }

    fn envelope(&self) -> &Envelope {
        &self.store.resource.envelope
    }

    /// Appends the frame of an item, and counts the bytes that it lacks.
    fn append_item(&self, seen: EventType, (item, lacks): &(Bytes, usize), out: &mut BytesMut) {
        let envelope = self.envelope();
        envelope.append_watch_frame(self.encoding, seen, item, out);
        if let Some(left_out) = &self.left_out {
            left_out.add(*lacks);
        }
    }

    fn item(&self, object: &StoredObject) -> Option<(Bytes, usize)> {
        let item = object.item(self.encoding, self.envelope());
        let item = item.and_then(|item| cut(item, self.encoding, self.left_out.as_ref()));
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

    fn left_out(&self) -> Option<&LeftOut> {
        self.left_out.as_ref()
    }

    fn make(&mut self, seen: EventType, object: &StoredObject) -> Option<MadeFrame> {
        let (item, left_out) = self.item(object)?;
        let bytes = self.envelope().watch_frame(self.encoding, seen, &item);
        Some(MadeFrame { bytes, left_out })
    }

    fn shares(&self) -> Option<SharedFrame> {
        Some(SharedFrame {
            of: FrameKind::Whole,
            encoding: self.encoding,
            without_managed_fields: self.left_out.is_some(),
        })
    }

    fn append(&mut self, seen: EventType, object: &StoredObject, out: &mut BytesMut) -> bool {
        let Some(item) = self.item(object) else {
            return false;
        };
        self.append_item(seen, &item, out);
        true
    }

    fn kept(&self, leaf: &Leaf, makes: bool) -> Option<Arc<ItemsWithoutManagedFields>> {
        self.left_out.as_ref()?;
        match makes {
            true => leaf.items_without_managed_fields(self.encoding, self.envelope()),
            false => leaf.ready_without_managed_fields(self.encoding),
        }
    }

    fn append_initial(
        &mut self,
        object: &StoredObject,
        kept: Option<(Bytes, usize)>,
        out: &mut BytesMut,
    ) -> bool {
        let Some(item) = kept.or_else(|| self.item(object)) else {
            return false;
        };
        self.append_item(EventType::Added, &item, out);
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
