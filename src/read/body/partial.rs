//! `as=PartialObjectMetadata` and `as=PartialObjectMetadataList`. `None` for an
//! object whose metadata holds what we do not know.

use std::sync::Arc;

use bytes::Bytes;

use super::pieces::Pieces;
use crate::negotiation::MetaVersion;
use crate::read::Page;
use crate::representation::Encoding;
use crate::representation::partial::{self, Metadata};
use crate::store::{Derived, Kept, Leaf, Part, Resource, StoredObject};

pub(super) fn single(
    resource: &Resource,
    object: &StoredObject,
    version: MetaVersion,
) -> Option<Bytes> {
    let object = partial::object(
        &object.json(&resource.envelope)?,
        &resource.envelope,
        version,
    )?;
    Some([&object[..], b"\n"].concat().into())
}

pub(super) fn list(
    resource: &Resource,
    page: &Page<'_>,
    version: MetaVersion,
) -> Option<Vec<Bytes>> {
    let empty = page.is_empty();
    let mut pieces = Pieces::new(page.objects().map(|o| o.size()).sum());
    pieces.push(&partial::list_prefix(&page.meta, version, empty));
    let mut put = |item: &Bytes, metadata: &Metadata| {
        pieces.next_item();
        for text in metadata.object(item, version) {
            pieces.push(text);
        }
    };
    for part in &page.parts {
        match part {
            Part::Object(object) => {
                let item = object.json(&resource.envelope)?;
                put(&item, &Metadata::find(&item, &resource.envelope)?);
            }
            Part::Leaf(leaf) => {
                let items = leaf.items(Encoding::Json, &resource.envelope)?;
                let metadatas = Metadatas::of(leaf, &items, resource)?;
                for (item, metadata) in items.iter().zip(&metadatas.0) {
                    put(item, metadata);
                }
            }
        }
    }
    pieces.push(&partial::list_suffix(empty));
    Some(pieces.finish())
}

/// The metadata of a leaf's objects.
pub(super) struct Metadatas(Box<[Metadata]>);

impl Derived for Metadatas {
    fn size(&self) -> usize {
        self.0.iter().map(Metadata::size).sum()
    }
}

impl Metadatas {
    pub(super) fn of(leaf: &Leaf, items: &[Bytes], resource: &Resource) -> Option<Arc<Kept<Self>>> {
        leaf.derived(|_| {
            let found = items
                .iter()
                .map(|item| Metadata::find(item, &resource.envelope));
            found.collect::<Option<_>>().map(Self)
        })
    }

    /// Of the leaf's object at this place.
    pub(super) fn get(&self, place: usize) -> Option<&Metadata> {
        self.0.get(place)
    }
}
