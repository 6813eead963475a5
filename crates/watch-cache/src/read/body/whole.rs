//! Writes objects with all their parts, perhaps but for managedFields.

use bytes::{Bytes, BytesMut};
use kubernetes_wire::representation::Encoding;
use kubernetes_wire::representation::encoding::ITEM_PREFIX_MAX;

use super::pieces::Pieces;
use super::shown::Shown;
use crate::read::Page;
use crate::store::{Derived, JOINED_MAX_BYTES, Leaf, Part, StoredObject};

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
    let join = |shown: &Shown<'_>, leaf: &Leaf| join_rest(shown, leaf, encoding);
    Some(match encoding {
        Encoding::Json => {
            let kept = shown.kept(leaf, |shown, leaf| join(shown, leaf).map(Rest::<JSON>))?;
            kept.0.clone()
        }
        Encoding::Protobuf => {
            let kept = shown.kept(leaf, |shown, leaf| join(shown, leaf).map(Rest::<PROTOBUF>))?;
            kept.0.clone()
        }
    })
}

fn join_rest(shown: &Shown<'_>, leaf: &Leaf, encoding: Encoding) -> Option<Bytes> {
    let items = leaf.objects().iter();
    let items = items.map(|object| shown.item(object, encoding));
    let items = items.collect::<Option<Vec<Bytes>>>()?;
    let lengths = items
        .iter()
        .map(|item| item.len().saturating_add(ITEM_PREFIX_MAX));
    let length = lengths.sum();
    if length > JOINED_MAX_BYTES {
        return None;
    }
    let mut joined = BytesMut::with_capacity(length);
    for item in items {
        encoding.put_item_prefix(item.len(), &mut joined);
        joined.extend_from_slice(&item);
    }
    Some(Bytes::copy_from_slice(&joined))
}

/// Tells whether the leaf keeps its objects without managedFields.
pub(super) fn keeps_rest(shown: &Shown<'_>, leaf: &Leaf, encoding: Encoding) -> bool {
    match encoding {
        Encoding::Json => shown.ready::<Rest<JSON>>(leaf).is_some(),
        Encoding::Protobuf => shown.ready::<Rest<PROTOBUF>>(leaf).is_some(),
    }
}

/// Tells whether [`joined`] has work to do.
pub(super) fn lacks(shown: &Shown<'_>, leaf: &Leaf, encoding: Encoding) -> bool {
    match encoding {
        _ if shown.is_whole() => leaf.is_unjoined(encoding),
        Encoding::Json => shown.lacks::<Rest<JSON>>(leaf),
        Encoding::Protobuf => shown.lacks::<Rest<PROTOBUF>>(leaf),
    }
}

/// The objects of a leaf as they stand in a list, without managedFields.
struct Rest<const ENCODING: u8>(Bytes);

const JSON: u8 = Encoding::Json as u8;
const PROTOBUF: u8 = Encoding::Protobuf as u8;

impl<const ENCODING: u8> Derived for Rest<ENCODING> {
    fn size(&self) -> usize {
        self.0.len()
    }
}
