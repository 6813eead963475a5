//! `as=PartialObjectMetadata` and `as=PartialObjectMetadataList` in protobuf.

use bytes::{Bytes, BytesMut};
use kubernetes_wire::api::protobuf_wire::prefix_len;
use kubernetes_wire::negotiation::MetaVersion;
use kubernetes_wire::representation::protobuf_envelope::Type;
use kubernetes_wire::representation::{Encoding, partial_object_metadata_protobuf};

use super::pieces::Pieces;
use crate::read::Page;
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
    // The v1beta1 message has the items first. Clients do not ask for it.
    if version == MetaVersion::V1Beta1 {
        return None;
    }
    let messages = page.objects().map(|o| message(resource, o, version));
    let messages = messages.collect::<Option<Vec<Bytes>>>()?;
    let length = |message: &Bytes| prefix_len(message.len()).saturating_add(message.len());
    let items = messages.iter().map(length).sum();
    let list = Type::new(version.api_version(), "PartialObjectMetadataList");
    let (prefix, suffix) = list.list(&page.meta, items);
    let mut pieces = Pieces::new();
    pieces.push(&prefix);
    let mut start = BytesMut::new();
    for message in messages {
        Encoding::Protobuf.put_item_prefix(message.len(), &mut start);
        pieces.push(&start.split());
        pieces.share(message);
    }
    pieces.push(&suffix);
    Some(pieces.finish())
}

fn message(resource: &Resource, object: &StoredObject, version: MetaVersion) -> Option<Bytes> {
    let envelope = &resource.envelope;
    let item = object.item(object.encoding(), envelope)?;
    partial_object_metadata_protobuf::of(object.encoding(), &item, envelope, version)
}
