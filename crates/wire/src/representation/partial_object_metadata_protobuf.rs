//! PartialObjectMetadata as a protobuf message.

use bytes::Bytes;

use super::partial_object_metadata::{self, Metadata};
use super::{Encoding, Envelope, transcode};
use crate::api::protobuf_wire::{Fields, Value, field_len};
use crate::negotiation::MetaVersion;
use crate::schema::Schema;

/// The field number of `metadata` in every object and in PartialObjectMetadata.
const METADATA: u64 = 1;

/// Tells whether the message is a slice of the list item.
pub fn is_slice(encoding: Encoding, envelope: &Envelope) -> bool {
    encoding == Encoding::Protobuf && !partial_object_metadata::hides_annotations(envelope)
}

/// Returns the message for a list item. The result is `None` if the metadata
/// contains an unknown field.
pub fn from_item(
    encoding: Encoding,
    item: &Bytes,
    envelope: &Envelope,
    version: MetaVersion,
) -> Option<Bytes> {
    if is_slice(encoding, envelope) {
        // `metadata` is the one field that both messages have.
        return match Fields::new(item).next()?.ok()? {
            (METADATA, Value::Bytes(metadata)) => Some(item.slice(..field_len(metadata.len()))),
            _ => None,
        };
    }
    let metadata = match encoding {
        Encoding::Json => Metadata::find(item, envelope),
        Encoding::Protobuf => Metadata::of_message(item, envelope),
    }?;
    let json = metadata.object(item, version).concat();
    let kind = Schema::builtin().kind(version.api_version(), "PartialObjectMetadata")?;
    let mut out = Vec::new();
    transcode::to_protobuf(kind, &json, &mut out).ok()?;
    Some(out.into())
}
