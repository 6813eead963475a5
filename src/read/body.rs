//! Bodies of GET and LIST out of stored objects.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use chrono::Utc;

use super::{BypassReason, Page};
use crate::negotiation::MetaVersion;
use crate::representation::partial;
use crate::representation::table::{Printer, TableOptions};
use crate::store::{Part, Resource, StoredObject};

/// Small parts of a body are copied together into pieces of this size: pingora
/// writes each piece on its own, and thousands of small ones cost it five times
/// the CPU.
const PIECE_BYTES: usize = 256 << 10;

/// From here on, bytes are a piece of their own: a write costs less than
/// copying as much.
const SHARED_BYTES: usize = 128 << 10;

/// What is larger is handed out in slices, so that no connection has to take
/// an unbounded piece at once.
const LARGEST_PIECE_BYTES: usize = 1 << 20;

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
    let meta = &page.meta;
    let mut pieces = Pieces::default();
    match shape {
        Shape::Table(printer, options) => {
            let items: Vec<_> = page.objects().map(|o| o.item()).collect();
            let table = printer
                .list(meta, items.iter(), envelope, *options, Utc::now())
                .map_err(|_| BypassReason::Representation)?;
            return Ok(vec![table.into()]);
        }
        Shape::Whole => {
            pieces.expect(page);
            pieces.push(&envelope.list_prefix(meta));
            for part in &page.parts {
                match part {
                    Part::Object(object) => pieces.item(object.item()),
                    Part::Leaf(leaf) => match leaf.joined() {
                        Some(items) => pieces.items(items),
                        None => leaf.objects().iter().for_each(|o| pieces.item(o.item())),
                    },
                }
            }
            pieces.push(&envelope.list_suffix(meta));
        }
        Shape::Partial(version) => {
            let empty = page.is_empty();
            pieces.expect(page);
            pieces.push(&partial::list_prefix(meta, *version, empty));
            for object in page.objects() {
                let object = partial::object(&object.item(), envelope, *version)
                    .ok_or(BypassReason::Representation)?;
                pieces.item(object);
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
    /// What the next piece is expected to hold.
    expected: usize,
    has_items: bool,
}

impl Pieces {
    /// Small lists are many: they must not each take a whole piece's memory.
    fn expect(&mut self, page: &Page<'_>) {
        let mut sizes = page.objects().map(|o| o.size());
        let full = |sum: usize, size| Some(sum + size).filter(|sum| *sum < PIECE_BYTES);
        self.expected = sizes.try_fold(0, full).unwrap_or(PIECE_BYTES);
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.current.len() + bytes.len() > PIECE_BYTES && !self.current.is_empty() {
            self.flush();
            self.expected = PIECE_BYTES;
        }
        if self.current.is_empty() {
            self.current.reserve(self.expected.max(bytes.len()));
        }
        self.current.extend_from_slice(bytes);
    }

    /// Without a copy, if that is worth it.
    fn share(&mut self, mut bytes: Bytes) {
        if bytes.len() < SHARED_BYTES {
            return self.push(&bytes);
        }
        self.flush();
        self.expected = 0;
        while bytes.len() > LARGEST_PIECE_BYTES {
            self.done.push(bytes.split_to(LARGEST_PIECE_BYTES));
        }
        self.done.push(bytes);
    }

    fn item(&mut self, item: Bytes) {
        if std::mem::replace(&mut self.has_items, true) {
            self.push(b",");
        }
        self.share(item);
    }

    /// Items of which each, the first too, follows a comma.
    fn items(&mut self, mut items: Bytes) {
        if !std::mem::replace(&mut self.has_items, true) && !items.is_empty() {
            items.advance(1);
        }
        self.share(items);
    }

    fn flush(&mut self) {
        if !self.current.is_empty() {
            self.done.push(self.current.split().freeze());
        }
    }

    fn finish(mut self) -> Vec<Bytes> {
        self.flush();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use std::iter;
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
            &[3_000_000; 3],
            &[1_000; 300],
        ] {
            let store = store(sizes);
            let snapshot = store.snapshot();
            let page = Page {
                parts: snapshot.parts(&Scope::All, "").collect(),
                meta: ListMeta::at(9),
            };
            let pieces = list_body(&store.resource, &page, &Shape::Whole).unwrap();
            assert!(pieces.iter().all(|p| p.len() <= LARGEST_PIECE_BYTES));
            assert!(pieces.iter().all(|p| !p.is_empty()));
            let total: usize = sizes.iter().sum();
            assert!(pieces.len() <= 2 + 2 * total / SHARED_BYTES, "{sizes:?}");
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
    #[test]
    fn what_is_joined_is_not_copied() {
        let store = store(&[5_000; 200]);
        let snapshot = store.snapshot();
        let page = || Page {
            parts: snapshot.parts(&Scope::All, "").collect(),
            meta: ListMeta::at(9),
        };
        let list = || list_body(&store.resource, &page(), &Shape::Whole).unwrap();
        let (first, second) = (list(), list());
        assert_eq!(first.concat(), second.concat());
        let shared = iter::zip(&first, &second).filter(|(a, b)| a.as_ptr() == b.as_ptr());
        let bytes: usize = shared.map(|(piece, _)| piece.len()).sum();
        assert!(bytes > 900_000, "{bytes} bytes are shared");
    }
}
