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
use super::frame_writers::{bookmark_item, bookmark_of_metadata};
use crate::store::{SharedFrame, Store, StoredObject};

/// Frames of PartialObjectMetadata. All watchers of an encoding and a version
/// share a frame.
pub struct MetadataFrames {
    store: Arc<Store>,
    encoding: Encoding,
    version: MetaVersion,
    kind: Type,
}

impl MetadataFrames {
    pub fn new(store: Arc<Store>, encoding: Encoding, version: MetaVersion) -> Self {
        Self {
            store,
            encoding,
            version,
            kind: Type::new(version.api_version(), "PartialObjectMetadata"),
        }
    }

    fn json(&self, seen: EventType, item: &Bytes, envelope: &Envelope) -> Option<Bytes> {
        let object = partial_object_metadata::object(item, envelope, self.version)?;
        Some(watch_frame(seen, &object))
    }

    fn protobuf(&self, seen: EventType, encoding: Encoding, item: &Bytes) -> Option<Bytes> {
        let envelope = &self.store.resource.envelope;
        let message =
            partial_object_metadata_protobuf::from_item(encoding, item, envelope, self.version);
        if message.is_none() {
            self.store.fail_to_write(Encoding::Protobuf);
        }
        Some(self.kind.watch_frame(seen, &message?))
    }
}

impl FrameWriter for MetadataFrames {
    fn encoding(&self) -> Encoding {
        self.encoding
    }

    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
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
        Some(match self.version {
            MetaVersion::V1 => SharedFrame::Metadata(self.encoding),
            MetaVersion::V1Beta1 => SharedFrame::MetadataV1Beta1(self.encoding),
        })
    }

    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes> {
        let (seen, store) = (EventType::Bookmark, &self.store);
        match self.encoding {
            Encoding::Json => {
                let (item, envelope) =
                    bookmark_of_metadata(store, resource_version, initial_events_end)?;
                self.json(seen, &item, &envelope)
            }
            Encoding::Protobuf => {
                let item = bookmark_item(store, resource_version, initial_events_end)?;
                self.protobuf(seen, Encoding::Json, &item)
            }
        }
    }
}
