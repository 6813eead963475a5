//! Bodies of GET and LIST out of stored objects.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use chrono::Utc;

use super::{BypassReason, Page};
use crate::negotiation::MetaVersion;
use crate::representation::partial;
use crate::representation::table::{Printer, TableOptions};
use crate::store::{Resource, StoredObject};

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
    page: &Page<'_>,
    shape: &Shape,
) -> Result<Vec<Bytes>, BypassReason> {
    let envelope = &resource.envelope;
    let Page { objects, meta } = page;
    let mut pieces = Pieces::default();
    match shape {
        Shape::Table(printer, options) => {
            let items: Vec<_> = objects.iter().map(|o| o.item()).collect();
            let table = printer
                .list(meta, items.iter(), envelope, *options, Utc::now())
                .map_err(|_| BypassReason::Representation)?;
            return Ok(vec![table.into()]);
        }
        Shape::Whole => {
            pieces.push(&envelope.list_prefix(meta));
            for (i, object) in objects.iter().enumerate() {
                pieces.item(i, &object.item());
            }
            pieces.push(&envelope.list_suffix(meta));
        }
        Shape::Partial(version) => {
            let empty = objects.is_empty();
            pieces.push(&partial::list_prefix(meta, *version, empty));
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
    use crate::api::GroupVersionResource;
    use crate::representation::{Envelope, Form, ListMeta};
    use crate::store::{Scope, Store, field_table};

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
            let page = Page {
                objects: snapshot.iter(&Scope::All).collect(),
                meta: ListMeta::at(9),
            };
            let pieces = list_body(&store.resource, &page, &Shape::Whole).unwrap();
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
