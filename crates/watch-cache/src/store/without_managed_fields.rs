//! Items without managedFields.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kubernetes_wire::representation::encoding::ITEM_PREFIX_MAX;
use kubernetes_wire::representation::{Encoding, Envelope, managed_fields};

use super::tree_leaf::{Derived, JOINED_MAX_BYTES, Leaf};

/// Returns the item without `metadata.managedFields`, and the bytes that it lacks then.
pub(crate) fn without_managed_fields(item: &Bytes, encoding: Encoding) -> Option<(Bytes, usize)> {
    let rest = managed_fields::without(encoding, item)?;
    let bytes = item.len().saturating_sub(rest.len());
    Some((rest, bytes))
}

/// The objects of a leaf without managedFields. All lists and watches share them.
pub struct ItemsWithoutManagedFields {
    joined: Bytes,
    items: Box<[Place]>,
    left_out: usize,
}

struct Place {
    start: u32,
    end: u32,
    /// The bytes that the item lacks.
    left_out: u32,
}

impl ItemsWithoutManagedFields {
    /// `None` if the leaf is very large, or if an object cannot be written.
    fn new(leaf: &Leaf, encoding: Encoding, envelope: &Envelope) -> Option<Self> {
        let cut = leaf.objects().iter().map(|object| {
            let item = object.item(encoding, envelope)?;
            without_managed_fields(&item, encoding)
        });
        let cut = cut.collect::<Option<Vec<_>>>()?;
        let lengths = cut
            .iter()
            .map(|(item, _)| item.len().saturating_add(ITEM_PREFIX_MAX));
        let length = lengths.sum();
        if length > JOINED_MAX_BYTES {
            return None;
        }
        let mut joined = BytesMut::with_capacity(length);
        let mut items = Vec::with_capacity(cut.len());
        let mut all: usize = 0;
        for (item, left_out) in cut {
            encoding.put_item_prefix(item.len(), &mut joined);
            let start = u32::try_from(joined.len()).ok()?;
            joined.extend_from_slice(&item);
            items.push(Place {
                start,
                end: u32::try_from(joined.len()).ok()?,
                left_out: u32::try_from(left_out).ok()?,
            });
            all = all.saturating_add(left_out);
        }
        Some(Self {
            joined: Bytes::copy_from_slice(&joined),
            items: items.into(),
            left_out: all,
        })
    }

    /// Returns the items as they stand in a list: JSON with a comma before each, protobuf
    /// with the key of `items` and a length.
    pub(crate) fn joined(&self) -> Bytes {
        self.joined.clone()
    }

    /// Returns the bytes that all items lack.
    pub(crate) fn left_out(&self) -> usize {
        self.left_out
    }

    /// Returns the item of the object at this place in the leaf, and the bytes that it
    /// lacks.
    pub(crate) fn item(&self, at: usize) -> Option<(Bytes, usize)> {
        let place = self.items.get(at)?;
        let item = self.joined.slice(place.start as usize..place.end as usize);
        Some((item, place.left_out as usize))
    }
}

/// The value that a leaf keeps for an encoding.
struct Kept<const ENCODING: u8>(Arc<ItemsWithoutManagedFields>);

const JSON: u8 = Encoding::Json as u8;
const PROTOBUF: u8 = Encoding::Protobuf as u8;

impl<const ENCODING: u8> Derived for Kept<ENCODING> {
    fn size(&self) -> usize {
        self.0
            .joined
            .len()
            .saturating_add(size_of_val(&*self.0.items))
    }
}

impl Leaf {
    /// Returns the leaf's objects without managedFields, which it keeps. `None` if the
    /// caller is to cut items one by one: the leaf is not in the current state, is very
    /// large, or has an object that cannot be written.
    pub(crate) fn items_without_managed_fields(
        &self,
        encoding: Encoding,
        envelope: &Envelope,
    ) -> Option<Arc<ItemsWithoutManagedFields>> {
        match encoding {
            Encoding::Json => self.kept::<JSON>(encoding, envelope),
            Encoding::Protobuf => self.kept::<PROTOBUF>(encoding, envelope),
        }
    }

    fn kept<const ENCODING: u8>(
        &self,
        encoding: Encoding,
        envelope: &Envelope,
    ) -> Option<Arc<ItemsWithoutManagedFields>> {
        if !self.lacks::<Kept<ENCODING>>() {
            return self.ready::<ENCODING>();
        }
        let kept = self.derived(|leaf| {
            let items = ItemsWithoutManagedFields::new(leaf, encoding, envelope)?;
            Some(Kept::<ENCODING>(Arc::new(items)))
        })?;
        Some(kept.0.clone())
    }

    /// Returns what [`items_without_managed_fields`](Self::items_without_managed_fields)
    /// has made and the leaf keeps.
    pub(crate) fn ready_without_managed_fields(
        &self,
        encoding: Encoding,
    ) -> Option<Arc<ItemsWithoutManagedFields>> {
        match encoding {
            Encoding::Json => self.ready::<JSON>(),
            Encoding::Protobuf => self.ready::<PROTOBUF>(),
        }
    }

    fn ready<const ENCODING: u8>(&self) -> Option<Arc<ItemsWithoutManagedFields>> {
        let kept = self.derived_if_ready::<Kept<ENCODING>>()?;
        Some(kept.0.clone())
    }

    /// Tells whether [`items_without_managed_fields`](Self::items_without_managed_fields)
    /// has work to do.
    pub(crate) fn lacks_items_without_managed_fields(&self, encoding: Encoding) -> bool {
        match encoding {
            Encoding::Json => self.lacks::<Kept<JSON>>(),
            Encoding::Protobuf => self.lacks::<Kept<PROTOBUF>>(),
        }
    }
}
