//! An object's metadata alone.

use bytes::Bytes;
use kubernetes_wire::representation::partial_object_metadata::Metadata;
use kubernetes_wire::representation::{Encoding, Envelope};

use super::StoredObject;

impl StoredObject {
    /// Returns the metadata as PartialObjectMetadata shows it. Nothing else of
    /// the object is transcoded. `None` if the object holds something unknown.
    pub fn metadata(&self, envelope: &Envelope) -> Option<Metadata> {
        match self.at_hand(Encoding::Json) {
            Some(json) => Metadata::find(&json, envelope),
            None => {
                let item = self.at_hand(Encoding::Protobuf)?;
                Metadata::of_message(&item, envelope)
            }
        }
    }

    /// Returns the JSON that `metadata` refers to. The result is empty if
    /// `metadata` refers to no JSON.
    pub(crate) fn json_of(&self, metadata: &Metadata, envelope: &Envelope) -> Option<Bytes> {
        if metadata.needs_json() {
            self.json(envelope)
        } else {
            Some(Bytes::new())
        }
    }
}
