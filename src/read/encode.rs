//! Bodies out of stored objects.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::representation::{EventType, ListMeta};
use crate::store::{Event, Filter, Resource, Snapshot, StoredObject};
use crate::watch::Encoding;

/// Bodies are handed to the socket in pieces of this size: pingora writes each
/// piece on its own, and thousands of small ones cost it five times the CPU.
const PIECE_BYTES: usize = 256 << 10;

/// The body of a GET as JSON.
pub fn get(resource: &Resource, object: &StoredObject) -> Bytes {
    resource.envelope.single(&object.item)
}

/// The objects a filter selects, and whether the API server would have cut the
/// list at `limit` (0 for none).
pub fn select<'s>(
    snapshot: &'s Snapshot,
    filter: &Filter,
    limit: usize,
) -> (Vec<&'s Arc<StoredObject>>, bool) {
    let mut selected = Vec::new();
    let mut candidates = snapshot.iter(&filter.scope);
    for object in candidates.by_ref() {
        if filter.matches(object) {
            selected.push(object);
            if limit > 0 && selected.len() == limit {
                break;
            }
        }
    }
    // With the page full and candidates left, matching or not, the API server
    // hands out a continue token.
    let cut = limit > 0 && selected.len() == limit && candidates.next().is_some();
    (selected, cut)
}

/// The body of a LIST as JSON, in pieces ready for the socket.
pub fn list(resource: &Resource, version: u64, objects: &[&Arc<StoredObject>]) -> Vec<Bytes> {
    let meta = ListMeta::at(version);
    let mut pieces = Vec::new();
    let mut piece = BytesMut::with_capacity(PIECE_BYTES);
    piece.extend_from_slice(&resource.envelope.list_prefix(&meta));
    for (i, object) in objects.iter().enumerate() {
        if i > 0 {
            piece.extend_from_slice(b",");
        }
        if piece.len() + object.item.len() > PIECE_BYTES && !piece.is_empty() {
            pieces.push(piece.split().freeze());
            piece.reserve(PIECE_BYTES);
        }
        piece.extend_from_slice(&object.item);
    }
    piece.extend_from_slice(&resource.envelope.list_suffix(&meta));
    pieces.push(piece.freeze());
    pieces
}

/// Watch frames as JSON.
pub struct JsonFrames(pub Arc<crate::store::Store>);

impl Encoding for JsonFrames {
    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        Some(self.0.resource.envelope.watch_frame(seen, &object.item))
    }

    fn shared(&mut self, seen: EventType, event: &Event) -> Option<Bytes> {
        let envelope = &self.0.resource.envelope;
        Some(event.frame(seen, || envelope.watch_frame(seen, &event.object.item)))
    }

    fn content_type(&self) -> &'static str {
        "application/json"
    }

    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes> {
        let template = self.0.resource.bookmark.as_ref()?;
        Some(template.frame(resource_version, initial_events_end))
    }
}
