//! Writes a watch's events as PartialObjectMetadata.

use std::sync::Arc;

use bytes::Bytes;
use kubernetes_wire::negotiation::MetaVersion;
use kubernetes_wire::representation::json_envelope::watch_frame;
use kubernetes_wire::representation::protobuf_envelope::Type;
use kubernetes_wire::representation::{
    Encoding, Envelope, EventType, partial_object_metadata, partial_object_metadata_protobuf,
};

use super::FrameWriter;
use super::bookmark_items::{bookmark_item, bookmark_of_metadata};
use super::frame_writer::cut;
use crate::LeftOut;
use crate::store::{FrameKind, MadeFrame, SharedFrame, Store, StoredObject};

/// Frames of PartialObjectMetadata. All watchers of an encoding and a version
/// share a frame.
pub struct MetadataFrames {
    store: Arc<Store>,
    encoding: Encoding,
    version: MetaVersion,
    kind: Type,
    left_out: Option<LeftOut>,
}

impl MetadataFrames {
    pub fn new(store: Arc<Store>, encoding: Encoding, version: MetaVersion) -> Self {
        Self {
            store,
            encoding,
            version,
            kind: Type::new(version.api_version(), "PartialObjectMetadata"),
            left_out: None,
        }
    }

    /// Leaves managedFields out, and counts their bytes.
    #[must_use]
    pub fn leaving_out(mut self, left_out: Option<LeftOut>) -> Self {
        self.left_out = left_out;
        self
    }

    fn json(&self, seen: EventType, item: &Bytes, envelope: &Envelope) -> Option<MadeFrame> {
        let object = partial_object_metadata::object(item, envelope, self.version)?;
        let (object, left_out) = cut(object, Encoding::Json, self.left_out.as_ref())?;
        let bytes = watch_frame(seen, &object);
        Some(MadeFrame { bytes, left_out })
    }

    fn protobuf(&self, seen: EventType, encoding: Encoding, item: &Bytes) -> Option<MadeFrame> {
        let envelope = &self.store.resource.envelope;
        let message =
            partial_object_metadata_protobuf::from_item(encoding, item, envelope, self.version);
        let message =
            message.and_then(|message| cut(message, Encoding::Protobuf, self.left_out.as_ref()));
        if message.is_none() {
            self.store.fail_to_write(Encoding::Protobuf);
        }
        let (message, left_out) = message?;
        let bytes = self.kind.watch_frame(seen, &message);
        Some(MadeFrame { bytes, left_out })
    }
}

impl FrameWriter for MetadataFrames {
    fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn left_out(&self) -> Option<&LeftOut> {
        self.left_out.as_ref()
    }

    fn make(&mut self, seen: EventType, object: &StoredObject) -> Option<MadeFrame> {
        let envelope = &self.store.resource.envelope;
        match self.encoding {
            Encoding::Json => self.json(seen, &object.json(envelope)?, envelope),
            Encoding::Protobuf => {
                let encoding = object.encoding();
                self.protobuf(seen, encoding, &object.item(encoding, envelope)?)
            }
        }
    }

    fn shares(&self) -> Option<SharedFrame> {
        Some(SharedFrame {
            of: match self.version {
                MetaVersion::V1 => FrameKind::Metadata,
                MetaVersion::V1Beta1 => FrameKind::MetadataV1Beta1,
            },
            encoding: self.encoding,
            without_managed_fields: self.left_out.is_some(),
        })
    }

    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes> {
        let (seen, store) = (EventType::Bookmark, &self.store);
        let frame = match self.encoding {
            Encoding::Json => {
                let (item, envelope) =
                    bookmark_of_metadata(store, resource_version, initial_events_end)?;
                self.json(seen, &item, &envelope)
            }
            Encoding::Protobuf => {
                let item = bookmark_item(store, resource_version, initial_events_end)?;
                self.protobuf(seen, Encoding::Json, &item)
            }
        };
        frame.map(|frame| frame.bytes)
    }
}
