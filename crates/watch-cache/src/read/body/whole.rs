//! Writes whole objects.

use bytes::{Bytes, BytesMut};
use kubernetes_wire::representation::Encoding;

use super::pieces::Pieces;
use crate::read::Page;
use crate::store::{Part, Resource, StoredObject};

pub(super) fn single(
    resource: &Resource,
    object: &StoredObject,
    encoding: Encoding,
) -> Option<Bytes> {
    let envelope = &resource.envelope;
    let item = object.item(encoding, envelope)?;
    Some(envelope.answer(encoding, &item))
}

/// Returns the items of a list. Each element is one item, its prefix, or the
/// joined items of a leaf.
pub(super) fn items(
    resource: &Resource,
    page: &Page<'_>,
    encoding: Encoding,
) -> Option<Vec<Bytes>> {
    let envelope = &resource.envelope;
    let mut items = Vec::new();
    let one = |object: &StoredObject, items: &mut Vec<Bytes>| {
        let item = object.item(encoding, envelope)?;
        let mut prefix = BytesMut::new();
        encoding.put_item_prefix(item.len(), &mut prefix);
        items.extend([prefix.freeze(), item]);
        Some(())
    };
    for part in &page.parts {
        match part {
            Part::Object(object) => one(object, &mut items)?,
            Part::Leaf(leaf) => match leaf.joined(encoding, envelope) {
                Some(joined) => items.push(joined),
                None => leaf.objects().iter().try_for_each(|o| one(o, &mut items))?,
            },
        }
    }
    if encoding == Encoding::Json
        && let Some(first) = items.first_mut()
    {
        // The first item must not begin with a comma.
        let _comma = first.split_to(1.min(first.len()));
    }
    Some(items)
}

pub(super) fn list(resource: &Resource, page: &Page<'_>, encoding: Encoding) -> Option<Vec<Bytes>> {
    let items = items(resource, page, encoding)?;
    let length = items.iter().map(Bytes::len).sum();
    let (prefix, suffix) = resource.envelope.list(encoding, &page.meta, length);
    let mut pieces = Pieces::new();
    pieces.push(&prefix);
    for items in items {
        pieces.share(items);
    }
    pieces.push(&suffix);
    Some(pieces.finish())
}
