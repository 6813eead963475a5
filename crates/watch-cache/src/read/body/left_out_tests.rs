//! Objects without managedFields are written as if their store had no managedFields.

use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use kubernetes_wire::api::{GroupVersionResource, ListOptions, Query};
use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::Encoding;
use kubernetes_wire::representation::table::{Printer, TableOptions};

use super::{GzipList, Shape, ShapeKind, get_body, list_body};
use crate::LeftOut;
use crate::read::{self, Selection};
use crate::store::Store;
use crate::store::tests::managed::Stores;

fn shapes() -> Vec<Shape> {
    let printer = Printer::builtin(&GroupVersionResource::new("", "v1", "pods"));
    let printer = Arc::new(printer.unwrap().clone());
    let version = MetaVersion::V1;
    let includes = [
        IncludeObject::None,
        IncludeObject::Metadata,
        IncludeObject::Object,
    ];
    let encodings = [Encoding::Json, Encoding::Protobuf];
    let whole = encodings.map(Shape::whole);
    let partial = encodings.map(|encoding| Shape::partial(version, encoding));
    let tables =
        includes.map(|include| Shape::table(printer.clone(), TableOptions { version, include }));
    whole.into_iter().chain(partial).chain(tables).collect()
}

/// Returns a list, which is the same if it is sent as gzip.
fn list(store: &Store, query: &str, shape: &Shape) -> Vec<u8> {
    let options = ListOptions::from_query(&Query::parse(query)).unwrap();
    let plan = read::list(&options).unwrap();
    let selection = Selection::new("", options, &plan, store).unwrap();
    let snapshot = store.snapshot();
    let page = read::page(&snapshot, &selection, &plan);
    let bytes = |left_out: &Option<LeftOut>| left_out.as_ref().map_or(0, LeftOut::bytes);
    let before = bytes(&shape.without_managed_fields);
    let body = list_body(store, &page, shape).unwrap().concat();
    let left_out = bytes(&shape.without_managed_fields) - before;
    if let ShapeKind::Whole(encoding) = shape.kind {
        let own = shape.without_managed_fields.as_ref();
        let own = own.map(|_| LeftOut::default());
        let gzip = GzipList::new(&store.resource, &page, encoding).leaving_out(own.clone());
        let deflated = gzip.deflate().unwrap().concat();
        assert_eq!(bytes(&own), left_out);
        let again = gzip.from_ready().map(|again| again.concat());
        assert!(again.is_none_or(|again| again == deflated));
        let mut plain = Vec::new();
        GzDecoder::new(&deflated[..])
            .read_to_end(&mut plain)
            .unwrap();
        assert!(plain == body, "{query}");
    }
    body
}

#[test]
fn lists_and_objects_lack_only_managed_fields() {
    for stored in [Encoding::Json, Encoding::Protobuf] {
        let stores = Stores::new(stored);
        let ((_, whole), (_, rest)) = (&stores.whole, &stores.rest);
        for shape in shapes() {
            let mut sum = 0;
            let left_out = LeftOut::default();
            let dropping = shape.clone().without_managed_fields(left_out.clone());
            let shows = shape.kind.shows_managed_fields();
            let mut compare = |expected: &[u8], made: &[u8], all: &[u8], of: &str| {
                assert!(made == expected, "{of} {shape:?}");
                assert_eq!(made != all, shows, "{of} {shape:?}");
                let before = sum;
                sum = left_out.bytes();
                let lacks = all.len() - made.len();
                let counted = usize::try_from(sum - before).unwrap();
                // A message that is longer may also have longer prefixes.
                assert!(
                    lacks <= counted + 8 * 300,
                    "{of} {shape:?} {lacks} {counted}"
                );
                assert!(lacks >= counted, "{of} {shape:?} {lacks} {counted}");
                assert_eq!(shows, counted > 0, "{of} {shape:?}");
            };
            for query in ["resourceVersion=0", "resourceVersion=0", "limit=7"] {
                let list = |store, shape| list(store, query, shape);
                let made = list(whole, &dropping);
                compare(&list(rest, &shape), &made, &list(whole, &shape), query);
            }
            let get = |store: &Store, shape| {
                let snapshot = store.snapshot();
                let object = snapshot.get("a", "p003").unwrap();
                get_body(store, object, shape).unwrap()
            };
            let made = get(whole, &dropping);
            compare(&get(rest, &shape), &made, &get(whole, &shape), "get");
        }
    }
}
