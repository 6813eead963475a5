//! An object's metadata alone.

use bytes::Bytes;
use kubernetes_wire::representation::partial_object_metadata::Metadata;
use kubernetes_wire::representation::{Encoding, Envelope};

use super::StoredObject;

impl StoredObject {
    /// The metadata as PartialObjectMetadata tells it. No more of the object is
    /// transcoded. `None` if it holds what we do not know.
    pub fn metadata(&self, envelope: &Envelope) -> Option<Metadata> {
        match self.at_hand(Encoding::Json) {
            Some(json) => Metadata::find(&json, envelope),
            None => {
                let item = self.at_hand(Encoding::Protobuf)?;
                Metadata::of_message(&item, envelope)
            }
        }
    }

    /// The JSON that its metadata is in; nothing if it is in none.
    pub(crate) fn json_of(&self, metadata: &Metadata, envelope: &Envelope) -> Option<Bytes> {
        if metadata.needs_json() {
            self.json(envelope)
        } else {
            Some(Bytes::new())
        }
    }
}
