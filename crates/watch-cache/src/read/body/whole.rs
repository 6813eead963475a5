//! Writes whole objects.

use bytes::{Bytes, BytesMut};
use kubernetes_wire::representation::Encoding;

use super::pieces::Pieces;
use crate::read::Page;
use crate::store::{Leaf, Part, Resource, StoredObject};

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
    let item = |object: &StoredObject| object.item(encoding, envelope);
    items_by(page, encoding, item, |leaf| leaf.joined(encoding, envelope))
}

/// Does the same as [`items`] with other items. `joined` returns `None` for a leaf whose
/// items are copied one by one.
pub(super) fn items_by(
    page: &Page<'_>,
    encoding: Encoding,
    item: impl Fn(&StoredObject) -> Option<Bytes>,
    joined: impl Fn(&Leaf) -> Option<Bytes>,
) -> Option<Vec<Bytes>> {
    let mut items = Vec::new();
    let one = |object: &StoredObject, items: &mut Vec<Bytes>| {
        let item = item(object)?;
        let mut prefix = BytesMut::new();
        encoding.put_item_prefix(item.len(), &mut prefix);
        items.extend([prefix.freeze(), item]);
        Some(())
    };
    for part in &page.parts {
        match part {
            Part::Object(object) => one(object, &mut items)?,
            Part::Leaf(leaf) => match joined(leaf) {
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
    list_of(items(resource, page, encoding)?, resource, page, encoding)
}

/// Returns a list of these items, and of their prefixes.
pub(super) fn list_of(
    items: Vec<Bytes>,
    resource: &Resource,
    page: &Page<'_>,
    encoding: Encoding,
) -> Option<Vec<Bytes>> {
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
