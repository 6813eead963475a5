//! `as=PartialObjectMetadata` and `as=PartialObjectMetadataList` in protobuf.

use bytes::{Bytes, BytesMut};

use super::pieces::Pieces;
use crate::negotiation::MetaVersion;
use crate::read::Page;
use crate::representation::message::{Type, put_item};
use crate::representation::partial_message;
use crate::store::{Resource, StoredObject};

pub(super) fn single(
    resource: &Resource,
    object: &StoredObject,
    version: MetaVersion,
) -> Option<Bytes> {
    let message = message(resource, object, version)?;
    Some(Type::new(version.api_version(), "PartialObjectMetadata").answer(&message))
}

pub(super) fn list(
    resource: &Resource,
    page: &Page<'_>,
    version: MetaVersion,
) -> Option<Vec<Bytes>> {
    // Its message has the items first. Nobody asks for it.
    if version == MetaVersion::V1Beta1 {
        return None;
    }
    let mut pieces = Pieces::new(page.objects().map(|o| o.size()).sum());
    let mut items = BytesMut::new();
    for object in page.objects() {
        put_item(&message(resource, object, version)?, &mut items);
    }
    let list = Type::new(version.api_version(), "PartialObjectMetadataList");
    let (prefix, suffix) = list.list(&page.meta, items.len());
    pieces.push(&prefix);
    pieces.share(items.freeze());
    pieces.push(&suffix);
    Some(pieces.finish())
}

fn message(resource: &Resource, object: &StoredObject, version: MetaVersion) -> Option<Bytes> {
    let envelope = &resource.envelope;
    let item = object.item(object.encoding(), envelope)?;
    partial_message::of(object.encoding(), &item, envelope, version)
}
