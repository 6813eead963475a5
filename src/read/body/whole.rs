//! Objects as they are.

use bytes::Bytes;

use super::pieces::Pieces;
use crate::read::Page;
use crate::store::{Part, Resource, StoredObject};

pub(super) fn single(resource: &Resource, object: &StoredObject) -> Bytes {
    resource.envelope.single(&object.item())
}

pub(super) fn list(resource: &Resource, page: &Page<'_>) -> Vec<Bytes> {
    let mut pieces = Pieces::default();
    pieces.expect(page);
    pieces.push(&resource.envelope.list_prefix(&page.meta));
    for part in &page.parts {
        match part {
            Part::Object(object) => pieces.item(object.item()),
            Part::Leaf(leaf) => match leaf.joined() {
                Some(items) => pieces.items(items),
                None => leaf.objects().iter().for_each(|o| pieces.item(o.item())),
            },
        }
    }
    pieces.push(&resource.envelope.list_suffix(&page.meta));
    pieces.finish()
}
