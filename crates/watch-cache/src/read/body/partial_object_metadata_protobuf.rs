//! Writes `as=PartialObjectMetadata` and `as=PartialObjectMetadataList` in
//! protobuf.

use bytes::{Bytes, BytesMut};
use kubernetes_wire::api::protobuf_wire::prefix_len;
use kubernetes_wire::negotiation::MetaVersion;
use kubernetes_wire::representation::encoding::ITEM_PREFIX_MAX;
use kubernetes_wire::representation::protobuf_envelope::Type;
use kubernetes_wire::representation::{Encoding, partial_object_metadata_protobuf};

use super::pieces::Pieces;
use super::shown::{Kept, Shown};
use crate::read::Page;
use crate::store::{Derived, Leaf, Part, StoredObject};

/// The version of lists that can be written.
const VERSION: MetaVersion = MetaVersion::V1;

pub(super) fn single(
    shown: &Shown<'_>,
    object: &StoredObject,
    version: MetaVersion,
) -> Option<Bytes> {
    let message = shown.message(object, version)?;
    Some(Type::new(version.api_version(), "PartialObjectMetadata").answer(&message))
}

pub(super) fn list(shown: &Shown<'_>, page: &Page<'_>, version: MetaVersion) -> Option<Vec<Bytes>> {
    // The v1beta1 message has the items first, and clients do not ask for it.
    if version != VERSION {
        return None;
    }
    let mut items = Vec::new();
    for part in &page.parts {
        match part {
            Part::Leaf(leaf) if Messages::are_worth_it(shown, leaf) => {
                items.push(Items::Leaf(Messages::for_leaf(shown, leaf)?.0.clone()));
            }
            Part::Leaf(leaf) => {
                for object in leaf.objects() {
                    items.push(Items::One(shown.message(object, VERSION)?));
                }
            }
            Part::Object(object) => items.push(Items::One(shown.message(object, VERSION)?)),
        }
    }
    let list = Type::new(VERSION.api_version(), "PartialObjectMetadataList");
    let length = items.iter().map(Items::length).sum();
    let (prefix, suffix) = list.list(&page.meta, length);
    let mut pieces = Pieces::new();
    pieces.push(&prefix);
    let mut start = BytesMut::new();
    for items in items {
        match items {
            Items::One(message) => {
                Encoding::Protobuf.put_item_prefix(message.len(), &mut start);
                pieces.push(&start.split());
                pieces.share(message);
            }
            Items::Leaf(items) => pieces.share(items),
        }
    }
    pieces.push(&suffix);
    Some(pieces.finish())
}

enum Items {
    /// An item without its prefix.
    One(Bytes),
    /// All items of a leaf, with their prefixes.
    Leaf(Bytes),
}

impl Items {
    fn length(&self) -> usize {
        match self {
            Self::One(message) => prefix_len(message.len()).saturating_add(message.len()),
            Self::Leaf(items) => items.len(),
        }
    }
}

/// The metadata of a leaf's objects as items of a list.
pub(super) struct Messages(Bytes);

impl Derived for Messages {
    fn size(&self) -> usize {
        self.0.len()
    }
}

impl Messages {
    /// Tells whether messages must be written. Otherwise they are slices of
    /// bytes that are kept anyway.
    pub(super) fn are_worth_it(shown: &Shown<'_>, leaf: &Leaf) -> bool {
        let envelope = shown.envelope();
        let mut objects = leaf.objects().iter();
        !shown.is_whole()
            || objects.any(|o| !partial_object_metadata_protobuf::is_slice(o.encoding(), envelope))
    }

    pub(super) fn for_leaf(shown: &Shown<'_>, leaf: &Leaf) -> Option<Kept<Self>> {
        shown.kept(leaf, |shown, leaf| joined(shown, leaf).map(Self))
    }
}

fn joined(shown: &Shown<'_>, leaf: &Leaf) -> Option<Bytes> {
    let objects = leaf.objects().iter();
    let messages = objects.map(|object| shown.message(object, VERSION));
    let messages = messages.collect::<Option<Vec<Bytes>>>()?;
    let length: usize = messages.iter().map(Bytes::len).sum();
    let prefixes = messages.len().saturating_mul(ITEM_PREFIX_MAX);
    let mut joined = BytesMut::with_capacity(length.saturating_add(prefixes));
    for message in messages {
        Encoding::Protobuf.put_item_prefix(message.len(), &mut joined);
        joined.extend_from_slice(&message);
    }
    Some(joined.freeze())
}
