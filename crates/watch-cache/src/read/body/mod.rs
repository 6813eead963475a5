//! Writes the bodies of GET and LIST from stored objects.

mod ahead;
mod gzip;
#[cfg(test)]
mod left_out_tests;
mod partial_object_metadata;
mod partial_object_metadata_protobuf;
mod pieces;
mod shape;
mod shown;
mod table;
mod to_make;
mod whole;

use bytes::Bytes;
use kubernetes_wire::representation::Encoding;

pub use ahead::{Ahead, list_forms};
pub use gzip::{GzipList, NotDeflated};
pub use shape::{Shape, ShapeKind};
pub use to_make::{bytes_to_make, bytes_to_make_of_page, makes_more_than};

use super::{BypassReason, Page};
use crate::store::{Store, StoredObject};

/// Returns the body of a GET.
pub fn get_body(
    store: &Store,
    object: &StoredObject,
    shape: &Shape,
) -> Result<Bytes, BypassReason> {
    let shown = shape.shown(&store.resource);
    let body = match &shape.kind {
        ShapeKind::Whole(encoding) => whole::single(&shown, object, *encoding),
        ShapeKind::Table(printer, options) => table::single(&shown, object, printer, *options).ok(),
        ShapeKind::Partial(version, Encoding::Json) => {
            partial_object_metadata::single(&shown, object, *version)
        }
        ShapeKind::Partial(version, Encoding::Protobuf) => {
            partial_object_metadata_protobuf::single(&shown, object, *version)
        }
    };
    shape.count(&shown);
    body.ok_or_else(|| unwritten(store, shape))
}

fn unwritten(store: &Store, shape: &Shape) -> BypassReason {
    if let ShapeKind::Whole(encoding) = &shape.kind {
        store.fail_to_write(*encoding);
    }
    BypassReason::Representation
}

/// Returns the body of a LIST in pieces, which refer to the store's memory
/// where possible.
pub fn list_body(
    store: &Store,
    page: &Page<'_>,
    shape: &Shape,
) -> Result<Vec<Bytes>, BypassReason> {
    let shown = shape.shown(&store.resource);
    let body = match &shape.kind {
        ShapeKind::Whole(encoding) => whole::list(&shown, page, *encoding),
        ShapeKind::Table(printer, options) => table::list(&shown, page, printer, *options).ok(),
        ShapeKind::Partial(version, Encoding::Json) => {
            partial_object_metadata::list(&shown, page, *version)
        }
        ShapeKind::Partial(version, Encoding::Protobuf) => {
            partial_object_metadata_protobuf::list(&shown, page, *version)
        }
    };
    shape.count(&shown);
    body.ok_or_else(|| unwritten(store, shape))
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::sync::{Arc, OnceLock};

    use kubernetes_wire::api::GroupVersionResource;
    use kubernetes_wire::representation::{Envelope, Form, ListMeta};

    use super::*;
    use crate::store::{KeyScope, Resource, StoreWriter, field_table};

    pub(super) fn written(sizes: &[usize]) -> (StoreWriter, Arc<Store>) {
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

    pub(super) fn store(sizes: &[usize]) -> Arc<Store> {
        written(sizes).1
    }

    #[test]
    fn bodies_come_in_few_pieces() {
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
                parts: snapshot.parts(&KeyScope::All, "").collect(),
                meta: ListMeta::at(9),
            };
            let pieces = list_body(&store, &page, &Shape::whole(Encoding::Json)).unwrap();
            assert!(pieces.iter().all(|p| !p.is_empty()));
            assert!(pieces.len() <= 2 + 2 * sizes.len(), "{sizes:?}");
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
            parts: snapshot.parts(&KeyScope::All, "").collect(),
            meta: ListMeta::at(9),
        };
        let list = || list_body(&store, &page(), &Shape::whole(Encoding::Json)).unwrap();
        let (first, second) = (list(), list());
        assert_eq!(first.concat(), second.concat());
        let shared = iter::zip(&first, &second).filter(|(a, b)| a.as_ptr() == b.as_ptr());
        let bytes: usize = shared.map(|(piece, _)| piece.len()).sum();
        assert!(bytes > 900_000, "{bytes} bytes are shared");
    }
}
