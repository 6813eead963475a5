//! Writes `as=PartialObjectMetadata` and `as=PartialObjectMetadataList`. The
//! functions return `None` if an object's metadata holds something unknown.

use bytes::Bytes;
use kubernetes_wire::negotiation::MetaVersion;
use kubernetes_wire::representation::Encoding;
use kubernetes_wire::representation::partial_object_metadata::{self, Metadata};

use super::pieces::Pieces;
use super::shown::{Kept, Shown};
use crate::read::Page;
use crate::store::{Derived, Leaf, Part, StoredObject};

pub(super) fn single(
    shown: &Shown<'_>,
    object: &StoredObject,
    version: MetaVersion,
) -> Option<Bytes> {
    let metadata = shown.metadata(object)?;
    let json = object.json_of(&metadata, shown.envelope())?;
    let [prefix, metadata, suffix] = metadata.object(&json, version);
    Some([prefix, metadata, suffix, b"\n"].concat().into())
}

pub(super) fn list(shown: &Shown<'_>, page: &Page<'_>, version: MetaVersion) -> Option<Vec<Bytes>> {
    let envelope = shown.envelope();
    let empty = page.is_empty();
    let mut pieces = Pieces::new();
    pieces.push(&partial_object_metadata::list_prefix(
        &page.meta, version, empty,
    ));
    let mut item = |object: &StoredObject, metadata: &Metadata| {
        pieces.next_item();
        let json = object.json_of(metadata, envelope)?;
        for text in metadata.object(&json, version) {
            pieces.share_of(&json, text);
        }
        Some(())
    };
    for part in &page.parts {
        match part {
            Part::Object(object) => item(object, &shown.metadata(object)?)?,
            Part::Leaf(leaf) => {
                let metadatas = Metadatas::for_leaf(shown, leaf)?;
                for (object, metadata) in leaf.objects().iter().zip(&metadatas.0) {
                    item(object, metadata)?;
                }
            }
        }
    }
    pieces.push(&partial_object_metadata::list_suffix(empty));
    Some(pieces.finish())
}

pub(super) struct Metadatas(Box<[Metadata]>);

impl Derived for Metadatas {
    /// The metadata is a part of the object's JSON.
    const REPLACED_BY: Option<Encoding> = Some(Encoding::Json);

    fn size(&self) -> usize {
        self.0.iter().map(Metadata::size).sum()
    }
}

impl Metadatas {
    pub(super) fn for_leaf(shown: &Shown<'_>, leaf: &Leaf) -> Option<Kept<Self>> {
        shown.kept(leaf, |shown, leaf| {
            let objects = leaf.objects().iter();
            let found = objects.map(|object| shown.metadata(object));
            found.collect::<Option<_>>().map(Self)
        })
    }

    pub(super) fn get(&self, place: usize) -> Option<&Metadata> {
        self.0.get(place)
    }
}
