//! Objects without managedFields are written as if their store had no managedFields.

use std::io::Read;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use flate2::read::GzDecoder;
use kubernetes_wire::api::{
    FieldSelector, GroupVersionResource, LabelSelector, ListOptions, Query,
};
use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::table::{Printer, TableOptions};
use kubernetes_wire::representation::{Encoding, Envelope, Form};

use crate::LeftOut;
use crate::read::{self, GzipList, Selection, Shape, ShapeKind, get_body, list_body};
use crate::store::{Filter, Resource, Store, StoreWriter, StoredObject, field_table};
use crate::watch::{FrameWriter, MetadataFrames, TableFrames, Watch, WatchOptions, WholeFrames};

const MANAGED: &str = r#","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","time":"2026-11-21T03:48:19Z","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{"f:nodeName":{}}}}]"#;

fn item(n: usize, version: u64, managed: &str) -> Bytes {
    let odd = n % 2;
    format!(
        r#"{{"metadata":{{"name":"p{n:03}","namespace":"a","uid":"u{n}","resourceVersion":"{version}","creationTimestamp":"2026-11-21T03:48:19Z","labels":{{"odd":"{odd}"}}{managed}}},"spec":{{"nodeName":"n{odd}","containers":null}},"status":{{}}}}"#
    )
    .into()
}

/// Two stores with the same objects, but for their managedFields.
struct Stores {
    whole: (StoreWriter, Arc<Store>),
    rest: (StoreWriter, Arc<Store>),
    stored: Encoding,
}

impl Stores {
    fn new(stored: Encoding) -> Self {
        let store = |managed: &str| {
            let gvr = GroupVersionResource::new("", "v1", "pods");
            let resource = Resource {
                fields: field_table(&gvr),
                gvr,
                namespaced: true,
                envelope: Envelope::new(Form::Struct, "v1", "Pod", "PodList"),
                bookmark: OnceLock::new(),
            };
            // Some objects never had a manager.
            let objects = (0..300).map(|n| {
                let managed = if n % 10 == 0 { "" } else { managed };
                object(&resource, stored, item(n, 5, managed))
            });
            let objects = objects.collect();
            Store::new(resource, objects, 9)
        };
        Self {
            whole: store(MANAGED),
            rest: store(""),
            stored,
        }
    }

    fn write(&self, n: usize, version: u64) {
        for ((writer, store), managed) in [(&self.whole, MANAGED), (&self.rest, "")] {
            let object = object(&store.resource, self.stored, item(n, version, managed));
            writer.apply_object(false, object, Instant::now());
        }
    }
}

fn object(resource: &Resource, stored: Encoding, item: Bytes) -> StoredObject {
    let item = match stored {
        Encoding::Json => item,
        Encoding::Protobuf => resource.envelope.transcoded(&item, stored).unwrap(),
    };
    StoredObject::decode(stored, item, &resource.fields, &resource.envelope).unwrap()
}

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

fn frames(store: &Arc<Store>, shape: &Shape) -> Box<dyn FrameWriter> {
    let (store, left_out) = (store.clone(), shape.without_managed_fields.clone());
    match &shape.kind {
        ShapeKind::Whole(encoding) => {
            Box::new(WholeFrames::new(store, *encoding).leaving_out(left_out))
        }
        ShapeKind::Table(printer, options) => {
            let frames = TableFrames::new(store, printer.clone(), *options);
            Box::new(frames.leaving_out(left_out))
        }
        ShapeKind::Partial(version, encoding) => {
            let frames = MetadataFrames::new(store, *encoding, *version);
            Box::new(frames.leaving_out(left_out))
        }
    }
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

#[tokio::test(start_paused = true)]
async fn watches_lack_only_managed_fields() {
    for stored in [Encoding::Json, Encoding::Protobuf] {
        for shape in shapes() {
            let stores = Stores::new(stored);
            let ((_, whole), (_, rest)) = (&stores.whole, &stores.rest);
            let watch = |store: &Arc<Store>, shape: &Shape, compressed: bool| {
                let labels = LabelSelector::parse("odd=1").unwrap();
                let fields = FieldSelector::default();
                let filter = Filter::new("a", labels, fields, &store.resource);
                let options = WatchOptions {
                    filter: filter.unwrap(),
                    bookmarks: false,
                    lasts: Duration::from_secs(60),
                };
                let (snapshot, frames) = (store.snapshot(), frames(store, shape));
                let watch = Watch::with_initial_events(store.clone(), snapshot, options, frames);
                match compressed {
                    true => watch.compressed(),
                    false => watch,
                }
            };
            let left_out = LeftOut::default();
            let dropping = shape.clone().without_managed_fields(left_out.clone());
            let mut watches = [
                watch(rest, &shape, false),
                watch(whole, &dropping, false),
                watch(whole, &dropping, false),
                watch(rest, &shape, true),
                watch(whole, &dropping, true),
                watch(whole, &shape, false),
            ];
            let mut counted = 0;
            for version in [0, 10, 11] {
                if version > 0 {
                    stores.write(7, version);
                }
                let mut seen = [const { Vec::new() }; 6];
                for (watch, seen) in watches.iter_mut().zip(&mut seen) {
                    let mut events = if version == 0 { 150 } else { 1 };
                    while events > 0 {
                        let (bytes, sent) = watch.next().await.unwrap();
                        seen.extend_from_slice(&bytes);
                        events -= sent;
                    }
                }
                let [expected, made, again, compressed, made_compressed, all] = &seen;
                assert!(made == expected, "{stored:?} {version} {shape:?}");
                assert!(again == expected, "{stored:?} {version} {shape:?}");
                assert!(made_compressed == compressed, "{version} {shape:?}");
                // Each of the three watchers was not sent so much.
                let lacks = 3 * (all.len() - made.len());
                let all_counted = usize::try_from(left_out.bytes()).unwrap();
                let now = all_counted - counted;
                counted = all_counted;
                assert!(
                    (now..=now + 3 * 8 * 150).contains(&lacks),
                    "{shape:?} {lacks} {now}"
                );
                assert_eq!(now > 0, shape.kind.shows_managed_fields(), "{shape:?}");
            }
        }
    }
}
