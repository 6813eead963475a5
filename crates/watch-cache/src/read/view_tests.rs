//! Tests lists of views. Each page must have the bytes that a store with only
//! the visible objects would give.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use flate2::read::GzDecoder;
use kubernetes_wire::api::{GroupVersionResource, ListOptions, Query};
use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::Encoding;
use kubernetes_wire::representation::table::{Printer, TableOptions};

use super::{GzipList, Selection, Shape, list, list_body, page};
use crate::LeftOut;
use crate::store::tests::pods;
use crate::store::{KeyScope, Store, StoredObject, Visible};

const NAMESPACES: usize = 40;

fn store(holds: impl Fn(&StoredObject) -> bool) -> Arc<Store> {
    let resource = pods::resource();
    let keys = (0..NAMESPACES).flat_map(|n| (0..7).map(move |i| (n, i)));
    let objects = keys.map(|(n, i)| {
        let (odd, padding) = (i % 2, "x".repeat(n * 20));
        let item = format!(
            r#"{{"metadata":{{"name":"p{i}","namespace":"n{n:02}","uid":"u{n}-{i}","resourceVersion":"5","labels":{{"odd":"{odd}"}},"annotations":{{"of":"n{n:02}{padding}"}}}},"spec":{{"nodeName":"n{odd}","containers":[]}},"status":{{}}}}"#
        );
        StoredObject::parse(Bytes::from(item), &resource.fields).unwrap()
    });
    let objects = objects.filter(|object| holds(object)).collect();
    Store::new(resource, objects, 9).1
}

fn sets() -> Vec<Visible> {
    let of = |whole: &dyn Fn(usize) -> bool, names: &[(usize, usize)]| {
        let namespaces = (0..NAMESPACES).filter(|n| whole(*n));
        let namespaces = namespaces.map(|n| format!("n{n:02}")).collect();
        let mut single: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (n, i) in names {
            let names = single.entry(format!("n{n:02}")).or_default();
            names.insert(format!("p{i}"));
        }
        Visible::new(&namespaces, &single)
    };
    let names = |each: &[usize], of_each: usize| {
        let names = each.iter().flat_map(|n| (0..of_each).map(move |i| (*n, i)));
        names.collect::<Vec<_>>()
    };
    vec![
        Visible::default(),
        of(&|_| true, &[]),
        of(&|n| n == 7, &[]),
        of(&|n| n % 9 < 6, &[]),
        of(&|n| n % 5 == 0, &[(6, 0), (6, 1), (6, 6), (7, 9), (39, 3)]),
        of(&|_| false, &[(0, 0), (39, 6)]),
        // Many names of which few exist.
        of(&|n| n == 3 || n == 21, &names(&[2, 4, 20, 38, 39, 50], 60)),
        of(&|_| false, &names(&[40, 41, 50], 60)),
    ]
}

fn shapes() -> Vec<Shape> {
    let printer = Printer::builtin(&GroupVersionResource::new("", "v1", "pods"));
    let printer = Arc::new(printer.unwrap().clone());
    let includes = [
        IncludeObject::None,
        IncludeObject::Metadata,
        IncludeObject::Object,
    ];
    let tables = includes.map(|include| {
        let version = MetaVersion::V1;
        Shape::table(printer.clone(), TableOptions { version, include })
    });
    let encodings = [Encoding::Json, Encoding::Protobuf];
    let partial = encodings.map(|encoding| Shape::partial(MetaVersion::V1, encoding));
    let whole = encodings.map(Shape::whole);
    let all = whole.into_iter().chain(partial).chain(tables);
    let rest = |shape: Shape| shape.without_managed_fields(LeftOut::default());
    all.flat_map(|shape| [shape.clone(), rest(shape)]).collect()
}

fn body(store: &Store, query: &str, shape: &Shape, set: Option<&Visible>) -> (Vec<u8>, String) {
    let options = ListOptions::from_query(&Query::parse(query)).unwrap();
    let plan = list(&options).unwrap();
    let selection = Selection::new("", options, &plan, store).unwrap();
    let selection = match set {
        Some(set) => selection.of_view(set),
        None => selection,
    };
    let snapshot = store.snapshot();
    let page = page(&snapshot, &selection, &plan);
    if let Some(set) = set {
        assert!(page.objects().all(|object| set.contains(&object.key)));
    }
    let body = list_body(store, &page, shape).unwrap().concat();
    if let Some(encoding) = shape.of_all_parts() {
        let gzip = GzipList::new(&store.resource, &page, encoding);
        let gzip = gzip.deflate().unwrap().concat();
        let mut plain = Vec::new();
        GzDecoder::new(&gzip[..]).read_to_end(&mut plain).unwrap();
        assert!(plain == body, "{query}");
    }
    (body, page.meta.continue_token)
}

#[test]
fn a_view_is_listed_as_if_there_were_nothing_else() {
    let all = store(|_| true);
    let mut pages = 0;
    for set in sets() {
        let alone = store(|object| set.contains(&object.key));
        for shape in shapes() {
            for query in [
                "resourceVersion=0".to_owned(),
                "limit=10".to_owned(),
                "limit=7&labelSelector=odd%3D1".to_owned(),
                "limit=7&fieldSelector=spec.nodeName%3Dn0".to_owned(),
                "resourceVersion=0&fieldSelector=metadata.name%3Dp3".to_owned(),
            ] {
                let mut next = query.clone();
                loop {
                    let (shown, token) = body(&all, &next, &shape, Some(&set));
                    let (expected, its) = body(&alone, &next, &shape, None);
                    assert!(shown == expected, "{next} {shape:?} {set:?}");
                    assert_eq!(token, its);
                    pages += 1;
                    if token.is_empty() {
                        break;
                    }
                    next = format!("{query}&continue={token}");
                }
            }
        }
        // The number of objects is known without iterating over them.
        let (snapshot, scope) = (all.snapshot(), KeyScope::Visible(set.clone()));
        let count = alone.snapshot().len();
        assert_eq!(snapshot.count_from(&scope, ""), count);
        assert_eq!(snapshot.iter(&scope).count(), count);
    }
    assert!(pages > 1_000, "{pages}");
}

#[test]
fn a_selected_namespace_is_listed_in_pages() {
    let store = store(|_| true);
    for (set, expected) in sets().iter().zip([0, 7, 7, 0, 0, 0]) {
        let query = "limit=2&fieldSelector=metadata.namespace%3Dn07";
        let (mut next, mut names) = (query.to_owned(), Vec::new());
        loop {
            let shape = Shape::whole(Encoding::Json);
            let (body, token) = body(&store, &next, &shape, Some(set));
            let list: serde_json::Value = serde_json::from_slice(&body).unwrap();
            let items = list["items"].as_array().unwrap();
            assert!(items.len() <= 2);
            names.extend(items.iter().map(|i| i["metadata"]["name"].to_string()));
            if token.is_empty() {
                break;
            }
            next = format!("{query}&continue={token}");
        }
        assert_eq!(names.len(), expected, "{set:?}");
        assert!(names.is_sorted_by(|a, b| a < b));
    }
}
