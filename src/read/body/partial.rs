//! `as=PartialObjectMetadata` and `as=PartialObjectMetadataList`. `None` for an
//! object whose metadata holds what we do not know.

use bytes::Bytes;

use super::pieces::Pieces;
use crate::negotiation::MetaVersion;
use crate::read::Page;
use crate::representation::partial;
use crate::store::{Resource, StoredObject};

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
    for object in page.objects() {
        pieces.item(partial::object(
            &object.json(&resource.envelope)?,
            &resource.envelope,
            version,
        )?);
    }
    pieces.push(&partial::list_suffix(empty));
    Some(pieces.finish())
}
