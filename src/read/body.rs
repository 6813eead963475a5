//! Bodies of GET and LIST out of stored objects.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use chrono::Utc;

use super::BypassReason;
use crate::negotiation::MetaVersion;
use crate::representation::table::{Printer, TableOptions};
use crate::representation::{ListMeta, partial};
use crate::store::{Filter, Resource, Snapshot, StoredObject};

/// Bodies are handed to the socket in pieces of this size: pingora writes each
/// piece on its own, and thousands of small ones cost it five times the CPU.
const PIECE_BYTES: usize = 256 << 10;

/// How objects are to be shown.
#[derive(Clone, Debug)]
pub enum Shape {
    Whole,
    Table(Arc<Printer>, TableOptions),
    Partial(MetaVersion),
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

/// The body of a GET.
pub fn get_body(
    resource: &Resource,
    object: &StoredObject,
    shape: &Shape,
) -> Result<Bytes, BypassReason> {
    let envelope = &resource.envelope;
    match shape {
        Shape::Whole => Ok(envelope.single(&object.item())),
        Shape::Table(printer, options) => printer
            .single(&object.item(), envelope, *options, Utc::now())
            .map(Bytes::from)
            .map_err(|_| BypassReason::Representation),
        Shape::Partial(version) => partial::object(&object.item(), envelope, *version)
            .map(|object| [&object[..], b"\n"].concat().into())
            .ok_or(BypassReason::Representation),
    }
}

/// The body of a LIST, in pieces ready for the socket.
pub fn list_body(
    resource: &Resource,
    version: u64,
    objects: &[&Arc<StoredObject>],
    shape: &Shape,
) -> Result<Vec<Bytes>, BypassReason> {
    let envelope = &resource.envelope;
    let meta = ListMeta::at(version);
    let mut pieces = Pieces::default();
    match shape {
        Shape::Table(printer, options) => {
            let items: Vec<_> = objects.iter().map(|o| o.item()).collect();
            let table = printer
                .list(&meta, items.iter(), envelope, *options, Utc::now())
                .map_err(|_| BypassReason::Representation)?;
            return Ok(vec![table.into()]);
        }
        Shape::Whole => {
            pieces.push(&envelope.list_prefix(&meta));
            for (i, object) in objects.iter().enumerate() {
                pieces.item(i, &object.item());
            }
            pieces.push(&envelope.list_suffix(&meta));
        }
        Shape::Partial(version) => {
            let empty = objects.is_empty();
            pieces.push(&partial::list_prefix(&meta, *version, empty));
            for (i, object) in objects.iter().enumerate() {
                let object = partial::object(&object.item(), envelope, *version)
                    .ok_or(BypassReason::Representation)?;
                pieces.item(i, &object);
            }
            pieces.push(&partial::list_suffix(empty));
        }
    }
    Ok(pieces.finish())
}

#[derive(Default)]
struct Pieces {
    done: Vec<Bytes>,
    current: BytesMut,
}

impl Pieces {
    fn push(&mut self, bytes: &[u8]) {
        if self.current.len() + bytes.len() > PIECE_BYTES && !self.current.is_empty() {
            self.done.push(self.current.split().freeze());
        }
        if self.current.is_empty() {
            self.current.reserve(PIECE_BYTES.max(bytes.len()));
        }
        self.current.extend_from_slice(bytes);
    }

    fn item(&mut self, index: usize, item: &[u8]) {
        if index > 0 {
            self.push(b",");
        }
        self.push(item);
    }

    fn finish(mut self) -> Vec<Bytes> {
        self.done.push(self.current.freeze());
        self.done
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;
    use crate::api::{FieldSelector, GroupVersionResource, LabelSelector};
    use crate::representation::{Envelope, Form};
    use crate::store::{Store, field_table};

    fn store(sizes: &[usize]) -> Store {
        let gvr = GroupVersionResource::new("", "v1", "nodes");
        let resource = Resource {
            fields: field_table(&gvr),
            gvr,
            namespaced: false,
            envelope: Envelope::new(Form::Struct, "v1", "Node", "NodeList"),
            bookmark: OnceLock::new(),
        };
        let objects = sizes.iter().enumerate().map(|(n, size)| {
            let padding = "x".repeat(*size);
            let odd = n % 2;
            let item = format!(
                r#"{{"metadata":{{"name":"n{n:03}","resourceVersion":"5","labels":{{"odd":"{odd}"}}}},"x":"{padding}"}}"#
            );
            StoredObject::parse(Bytes::from(item), &resource.fields).unwrap()
        });
        let objects = objects.collect();
        Store::new(resource, objects, 9)
    }

    #[test]
    fn a_list_is_cut_where_the_api_server_cuts_it() {
        let store = store(&[0; 6]);
        let snapshot = store.snapshot();
        for (labels, limit, expected) in [
            ("", 0, (6, false)),
            ("", 6, (6, false)),
            ("", 7, (6, false)),
            ("", 5, (5, true)),
            // After n004 there is n005, which does not match: the API server
            // does not know that.
            ("odd=0", 3, (3, true)),
            ("odd=1", 3, (3, false)),
            ("odd=2", 1, (0, false)),
        ] {
            let filter = Filter::new(
                "",
                LabelSelector::parse(labels).unwrap(),
                FieldSelector::parse("").unwrap(),
                &store.resource,
            );
            let (selected, cut) = select(&snapshot, &filter.unwrap(), limit);
            assert_eq!((selected.len(), cut), expected, "{labels} {limit}");
        }
    }

    #[test]
    fn bodies_come_in_pieces_of_their_size() {
        for sizes in [
            &[][..],
            &[10],
            &[100_000; 20],
            &[1_000_000, 10, 1_000_000],
            &[300_000],
        ] {
            let store = store(sizes);
            let snapshot = store.snapshot();
            let objects: Vec<_> = snapshot.iter(&crate::store::Scope::All).collect();
            let pieces = list_body(&store.resource, 9, &objects, &Shape::Whole).unwrap();
            let largest = sizes.iter().max().unwrap_or(&0) + 200;
            assert!(pieces.iter().all(|p| p.len() <= PIECE_BYTES.max(largest)));
            assert!(pieces.iter().all(|p| !p.is_empty()));
            let body = pieces.concat();
            let list: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(list["metadata"]["resourceVersion"], "9");
            let names: Vec<_> = list["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|i| &i["metadata"]["name"])
                .collect();
            let expected: Vec<_> = (0..sizes.len()).map(|n| format!("n{n:03}")).collect();
            assert_eq!(names, expected.iter().collect::<Vec<_>>());
        }
    }
}
