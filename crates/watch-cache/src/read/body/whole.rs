//! Writes objects with all their parts, perhaps but for managedFields.

use bytes::{Bytes, BytesMut};
use kubernetes_wire::representation::Encoding;

use super::pieces::Pieces;
use super::shown::Shown;
use crate::read::Page;
use crate::store::{Leaf, Part, StoredObject};

pub(super) fn single(
    shown: &Shown<'_>,
    object: &StoredObject,
    encoding: Encoding,
) -> Option<Bytes> {
    let item = shown.item(object, encoding)?;
    Some(shown.envelope().answer(encoding, &item))
}

/// Returns the items of a list. Each element is one item, its prefix, or the
/// joined items of a leaf.
fn items_of(shown: &Shown<'_>, page: &Page<'_>, encoding: Encoding) -> Option<Vec<Bytes>> {
    let mut items = Vec::new();
    let one = |object: &StoredObject, items: &mut Vec<Bytes>| {
        let item = shown.item(object, encoding)?;
        let mut prefix = BytesMut::new();
        encoding.put_item_prefix(item.len(), &mut prefix);
        items.extend([prefix.freeze(), item]);
        Some(())
    };
    for part in &page.parts {
        match part {
            Part::Object(object) => one(object, &mut items)?,
            Part::Leaf(leaf) => match joined(shown, leaf, encoding) {
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

pub(super) fn list(shown: &Shown<'_>, page: &Page<'_>, encoding: Encoding) -> Option<Vec<Bytes>> {
    let items = items_of(shown, page, encoding)?;
    let length = items.iter().map(Bytes::len).sum();
    let (prefix, suffix) = shown.envelope().list(encoding, &page.meta, length);
    let mut pieces = Pieces::new();
    pieces.push(&prefix);
    for items in items {
        pieces.share(items);
    }
    pieces.push(&suffix);
    Some(pieces.finish())
}

/// Returns the objects of the leaf as they stand in a list. All lists share them. `None`
/// if the items are to be copied one by one.
pub(super) fn joined(shown: &Shown<'_>, leaf: &Leaf, encoding: Encoding) -> Option<Bytes> {
    if shown.is_whole() {
        return leaf.joined(encoding, shown.envelope());
    }
    let items = leaf.items_without_managed_fields(encoding, shown.envelope())?;
    shown.note_left_out(items.left_out());
    Some(items.joined())
}

/// Tells whether [`joined`] has work to do.
pub(super) fn lacks(shown: &Shown<'_>, leaf: &Leaf, encoding: Encoding) -> bool {
    match shown.is_whole() {
        true => leaf.is_unjoined(encoding),
        false => leaf.lacks_items_without_managed_fields(encoding),
    }
}
