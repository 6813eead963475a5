//! Moves the bytes of neighbouring objects into one buffer.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kubernetes_wire::representation::Encoding;
use kubernetes_wire::representation::encoding::ITEM_PREFIX_MAX;

use super::StoredObject;
use super::buffer::{Buffer, Tally};

/// Joins the objects' items as they stand in a list: JSON with a comma before each,
/// protobuf with the key of `items` and a length. From now on the objects' bytes are
/// slices of the result. `objects` are in key order, and `items` are theirs in this
/// encoding.
pub(super) fn join(
    objects: &[Arc<StoredObject>],
    items: &[Bytes],
    encoding: Encoding,
    tally: &Arc<Tally>,
) -> Option<Bytes> {
    let length: usize = items.iter().map(Bytes::len).sum();
    let made = objects.iter().zip(items);
    let made = made.filter(|(object, _)| object.encoding() != encoding);
    let derived = made.map(|(_, item)| item.len()).sum();
    let prefixes = items.len().saturating_mul(ITEM_PREFIX_MAX);
    let mut joined = BytesMut::with_capacity(length.saturating_add(prefixes));
    let mut places = Vec::with_capacity(items.len());
    for item in items {
        encoding.put_item_prefix(item.len(), &mut joined);
        let start = u32::try_from(joined.len()).ok()?;
        joined.extend_from_slice(item);
        places.push(start..u32::try_from(joined.len()).ok()?);
    }
    let joined = joined.freeze();
    let ends = [objects.first()?, objects.last()?].map(|o| o.key.clone());
    let buffer = Buffer::new(ends, joined.clone(), length, derived, tally.clone());
    for (object, place) in objects.iter().zip(&places) {
        object.move_into(&buffer, encoding, place);
    }
    Some(joined)
}
