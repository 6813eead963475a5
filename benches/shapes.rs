//! Measures the cost of writing a list of 10,000 pods in each representation,
//! without any server: the first and later writes, and the memory that is kept. The
//! objects are kept as protobuf, as the program reads them.
//!
//! `make bench ARGS='shapes --pods 10000 --lists 10'`

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::support::{count, report, usage};
use apifront_watch_cache::LeftOut;
use apifront_watch_cache::read::{Page, Shape, list_body};
use apifront_watch_cache::store::{KeyScope, Resource, Store, StoredObject, field_table};
use bytes::Bytes;
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::{Encoding, Envelope, Form, ListMeta, Printer, TableOptions};

pub fn main() {
    let (pods, lists) = (count("pods", 10_000), count("lists", 10));
    let store = filled(pods);
    let snapshot = store.snapshot();
    let printer = Arc::new(Printer::builtin(&store.resource.gvr).expect("pods").clone());
    let table = |include| {
        let version = MetaVersion::V1;
        Shape::table(printer.clone(), TableOptions { version, include })
    };
    let partial = |encoding| Shape::partial(MetaVersion::V1, encoding);
    let rest = |shape: Shape| shape.without_managed_fields(LeftOut::default());
    let mut rows = Vec::new();
    for (name, shape) in [
        // Whole JSON comes late. The shapes before it do not need it, but would use
        // it if it existed.
        ("whole, protobuf", Shape::whole(Encoding::Protobuf)),
        (
            "without managedFields, protobuf",
            rest(Shape::whole(Encoding::Protobuf)),
        ),
        (
            "PartialObjectMetadata without managedFields, protobuf",
            rest(partial(Encoding::Protobuf)),
        ),
        (
            "PartialObjectMetadata, protobuf",
            partial(Encoding::Protobuf),
        ),
        ("PartialObjectMetadata, JSON", partial(Encoding::Json)),
        ("Table", table(IncludeObject::Metadata)),
        ("Table, no objects", table(IncludeObject::None)),
        (
            "without managedFields, JSON",
            rest(Shape::whole(Encoding::Json)),
        ),
        ("whole, JSON", Shape::whole(Encoding::Json)),
        ("Table, whole objects", table(IncludeObject::Object)),
    ] {
        let write = || {
            let page = Page {
                parts: snapshot.parts(&KeyScope::All, "").collect(),
                meta: ListMeta::at(9),
            };
            let before = usage::cpu_time(std::process::id());
            let body = list_body(&store, &page, &shape).expect("a body");
            let took = usage::cpu_time(std::process::id()) - before;
            (took, body.iter().map(Bytes::len).sum::<usize>())
        };
        let derived = store.memory().derived;
        let (first, bytes) = write();
        let kept = store.memory().derived - derived;
        let mut later: Vec<Duration> = (0..lists).map(|_| write().0).collect();
        later.sort_unstable();
        rows.push(vec![
            name.to_owned(),
            format!("{:.1}", bytes as f64 / 1e6),
            format!("{:.1}", first.as_secs_f64() * 1e3),
            format!("{:.1}", later[lists / 2].as_secs_f64() * 1e3),
            format!("{:.1}", kept as f64 / 1e6),
        ]);
    }
    let heads = ["shape", "MB", "first, CPU ms", "later, CPU ms", "MB kept"];
    report::table(&heads, &rows);
}

fn filled(pods: usize) -> Arc<Store> {
    let gvr = GroupVersionResource::new("", "v1", "pods");
    let resource = Resource {
        fields: field_table(&gvr),
        gvr,
        namespaced: true,
        envelope: Envelope::new(Form::Struct, "v1", "Pod", "PodList"),
        bookmark: OnceLock::new(),
    };
    // Built-in kinds are read as protobuf.
    let encoding = Encoding::Protobuf;
    let Resource {
        envelope, fields, ..
    } = &resource;
    let object = |n| {
        let message = envelope.transcoded(pod(n).as_bytes(), encoding);
        let message = message.expect("a pod");
        StoredObject::decode(encoding, message, fields, envelope).expect("a pod")
    };
    let objects = (0..pods).map(object).collect();
    Store::new(resource, objects, 9).1
}

/// Returns a pod as large and as deeply nested as those of a real cluster.
fn pod(n: usize) -> String {
    let fields =
        r#""f:name":{},"f:image":{},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{}}},"#;
    let managed = format!(
        r#"{{"f:spec":{{"f:containers":{{{}".":{{}}}}}}}}"#,
        fields.repeat(55)
    );
    let environment = r#"{"name":"OTEL_EXPORTER_OTLP_ENDPOINT","value":"http://collector:4317"},"#;
    let environment = environment.repeat(38);
    format!(
        r#"{{"metadata":{{"name":"checkout-api-{n:05}","namespace":"team-{:02}","uid":"7d1f52a4-0c3e-4d0a-9a55-{n:012}","resourceVersion":"7","creationTimestamp":"2026-11-21T03:48:19Z","labels":{{"app":"checkout-api"}},"managedFields":[{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-11-21T03:48:19Z","fieldsType":"FieldsV1","fieldsV1":{managed}}}]}},"spec":{{"nodeName":"node-1","containers":[{{"name":"main","image":"registry/checkout:2","env":[{environment}{{"name":"A","value":"b"}}]}}]}},"status":{{"phase":"Running","podIP":"10.0.0.1","podIPs":[{{"ip":"10.0.0.1"}}],"conditions":[{{"type":"Ready","status":"True"}}],"containerStatuses":[{{"name":"main","ready":true,"started":true,"restartCount":3,"state":{{"running":{{"startedAt":"2026-11-21T03:48:19Z"}}}},"lastState":{{"terminated":{{"exitCode":1,"finishedAt":"2026-11-21T03:48:19Z"}}}}}}]}}}}"#,
        n % 20,
    )
}
