//! Writes whole objects without `metadata.managedFields`.

use bytes::{Bytes, BytesMut};
use kubernetes_wire::representation::encoding::ITEM_PREFIX_MAX;
use kubernetes_wire::representation::{Encoding, managed_fields};

use super::whole;
use crate::read::Page;
use crate::store::{Derived, Leaf, Resource, StoredObject};

pub(super) fn single(
    resource: &Resource,
    object: &StoredObject,
    encoding: Encoding,
) -> Option<Bytes> {
    let item = item(resource, object, encoding)?;
    Some(resource.envelope.answer(encoding, &item))
}

pub(super) fn list(resource: &Resource, page: &Page<'_>, encoding: Encoding) -> Option<Vec<Bytes>> {
    let item = |object: &StoredObject| item(resource, object, encoding);
    let joined = |leaf: &Leaf| joined(leaf, resource, encoding);
    let items = whole::items_by(page, encoding, item, joined)?;
    whole::list_of(items, resource, page, encoding)
}

/// Tells whether the leaf keeps its objects without managedFields.
pub(super) fn is_kept(leaf: &Leaf, encoding: Encoding) -> bool {
    match encoding {
        Encoding::Json => leaf.derived_if_ready::<Joined<JSON>>().is_some(),
        Encoding::Protobuf => leaf.derived_if_ready::<Joined<PROTOBUF>>().is_some(),
    }
}

fn item(resource: &Resource, object: &StoredObject, encoding: Encoding) -> Option<Bytes> {
    managed_fields::without(encoding, &object.item(encoding, &resource.envelope)?)
}

/// The objects of a leaf as they stand in a list.
struct Joined<const ENCODING: u8>(Bytes);

const JSON: u8 = Encoding::Json as u8;
const PROTOBUF: u8 = Encoding::Protobuf as u8;

impl<const ENCODING: u8> Derived for Joined<ENCODING> {
    fn size(&self) -> usize {
        self.0.len()
    }
}

/// Returns the objects of the leaf as they stand in a list. All lists share them.
fn joined(leaf: &Leaf, resource: &Resource, encoding: Encoding) -> Option<Bytes> {
    let make = |leaf: &Leaf| {
        let items = leaf.objects().iter();
        let items = items.map(|object| item(resource, object, encoding));
        let items = items.collect::<Option<Vec<Bytes>>>()?;
        let lengths = items
            .iter()
            .map(|item| item.len().saturating_add(ITEM_PREFIX_MAX));
        let mut joined = BytesMut::with_capacity(lengths.sum());
        for item in items {
            encoding.put_item_prefix(item.len(), &mut joined);
            joined.extend_from_slice(&item);
        }
        Some(Bytes::copy_from_slice(&joined))
    };
    match encoding {
        Encoding::Json => {
            let kept = leaf.derived(|leaf| make(leaf).map(Joined::<JSON>))?;
            Some(kept.0.clone())
        }
        Encoding::Protobuf => {
            let kept = leaf.derived(|leaf| make(leaf).map(Joined::<PROTOBUF>))?;
            Some(kept.0.clone())
        }
    }
}
