//! Measures the library's cost of a compressed LIST: stitched from new leaves only,
//! from known leaves, and with 1% of the objects changed. The peers are flate2 and
//! Go (in kube-apiserver), which compress everything each time.
//!
//! `make bench ARGS='gzip_list --pods 10000 --rounds 5'`

use std::io::Write;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::support::report::{self, Goal, median};
use crate::support::{count, pods, usage};
use apifront_watch_cache::read::{GzipList, Page};
use apifront_watch_cache::store::{
    KeyScope, Resource, Store, StoreWriter, StoredObject, field_table,
};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use harness::client::Client;
use harness::cluster::Cluster;
use harness::media_types::{JSON, PROTOBUF};
use http::Method;
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::api::protobuf_wire::{Fields, Value};
use kubernetes_wire::representation::protobuf_envelope::Answer;
use kubernetes_wire::representation::{Encoding, Envelope, Form, ListMeta};
use serde::Deserialize;
use serde_json::value::RawValue;

const PATH: &str = "/api/v1/pods?resourceVersion=0";
/// The goals: how many times less CPU than kube-apiserver, which also sends the
/// list.
const GOALS: [(Encoding, &str, f64); 2] = [
    (Encoding::Json, JSON, 100.0),
    (Encoding::Protobuf, PROTOBUF, 50.0),
];

pub fn main() {
    crate::support::run(gzip_list());
}

async fn gzip_list() {
    let (number, rounds) = (count("pods", 10_000), count("rounds", 5));
    let cluster = Cluster::start(&[]).await;
    let admin = cluster.admin_client();
    pods::create(&admin, number).await;
    for (encoding, accept, goal) in GOALS {
        let plain = admin.get_as(PATH, accept).await.body;
        let items = items(encoding, &plain);
        assert_eq!(items.len(), number);
        println!("\n{accept}: {:.1} MB", plain.len() as f64 / 1e6);
        let mut rows = Vec::new();
        let mut row = |what: &str, costs: &[Duration], bytes: usize| {
            let cost = median(costs.iter().map(|cost| cost.as_secs_f64() * 1e3));
            rows.push(vec![
                what.to_owned(),
                format!("{cost:.1}"),
                format!("{:.2}", bytes as f64 / 1e6),
            ]);
            cost
        };
        let pid = cluster.apiserver.pid();
        let (theirs, bytes) = upstream(&admin, pid, accept, true, rounds).await;
        let theirs = row("kube-apiserver: gzip", &theirs, bytes);
        let (costs, bytes) = upstream(&admin, pid, accept, false, rounds).await;
        row("kube-apiserver: not compressed", &costs, bytes);
        for level in [1, 4] {
            let (costs, bytes) = repeated(rounds, || whole(&plain, level));
            row(&format!("flate2, level {level}, all of it"), &costs, bytes);
        }
        // Each round needs a new store, in which all leaves are new.
        let stores: Vec<_> = (0..rounds).map(|_| store(encoding, &items)).collect();
        let mut fresh = stores.iter().map(|(_, store)| store);
        let (costs, bytes) = repeated(rounds, || stitched(fresh.next().expect("one"), encoding));
        row("stitched, all leaves new", &costs, bytes);
        let (writer, store) = &stores[0];
        let (known, bytes) = repeated(rounds, || stitched(store, encoding));
        let known = row("stitched, all leaves known", &known, bytes);
        let costs: Vec<_> = (0..rounds)
            .map(|round| {
                change((writer, store), encoding, &items, round);
                repeated(1, || stitched(store, encoding)).0[0]
            })
            .collect();
        row("stitched, 1% of the objects changed", &costs, bytes);
        report::table(&["", "CPU ms", "MB"], &rows);
        let what = "kube-apiserver ÷ stitched";
        report::compare(what, theirs / known, "x", Goal::AtLeast(goal));
    }
}

/// Returns the CPU time of each round, and the length of the last result.
fn repeated(rounds: usize, mut work: impl FnMut() -> usize) -> (Vec<Duration>, usize) {
    let pid = std::process::id();
    let mut bytes = 0;
    let costs = (0..rounds).map(|_| {
        let before = usage::cpu_time(pid);
        bytes = work();
        usage::cpu_time(pid) - before
    });
    (costs.collect(), bytes)
}

async fn upstream(
    admin: &Client,
    pid: u32,
    accept: &str,
    gzip: bool,
    rounds: usize,
) -> (Vec<Duration>, usize) {
    let encoding = if gzip { "gzip" } else { "identity" };
    let headers = [("accept", accept), ("accept-encoding", encoding)];
    let (mut costs, mut bytes) = (Vec::new(), 0);
    for _ in 0..rounds {
        let before = usage::cpu_time(pid);
        let list = admin.send(Method::GET, PATH, &headers, "").await;
        costs.push(usage::cpu_time(pid) - before);
        assert_eq!(list.header("content-encoding") == "gzip", gzip);
        bytes = list.body.len();
    }
    (costs, bytes)
}

fn whole(plain: &[u8], level: u32) -> usize {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(plain).expect("memory");
    encoder.finish().expect("memory").len()
}

fn stitched(store: &Store, encoding: Encoding) -> usize {
    let snapshot = store.snapshot();
    let page = Page {
        parts: snapshot.parts(&KeyScope::All, "").collect(),
        meta: ListMeta::at(snapshot.resource_version),
    };
    let list = GzipList::new(&store.resource, &page, encoding);
    assert!(list.is_longer_than(128 << 10));
    let pieces = match list.from_ready() {
        Some(pieces) => pieces,
        None => list.deflate().expect("a list"),
    };
    pieces.iter().map(Bytes::len).sum()
}

/// Writes every hundredth object again, with another version.
fn change(
    (writer, store): (&StoreWriter, &Store),
    encoding: Encoding,
    items: &[Bytes],
    round: usize,
) {
    let mut version = store.snapshot().resource_version;
    for item in items.iter().skip(round).step_by(100) {
        version += 1;
        let mut object = decoded(&store.resource, encoding, item);
        object.resource_version = version;
        writer.apply_object(false, object, Instant::now());
    }
}

fn store(encoding: Encoding, items: &[Bytes]) -> (StoreWriter, Arc<Store>) {
    let gvr = GroupVersionResource::new("", "v1", "pods");
    let resource = Resource {
        fields: field_table(&gvr),
        gvr,
        namespaced: true,
        envelope: Envelope::new(Form::Struct, "v1", "Pod", "PodList"),
        bookmark: OnceLock::new(),
    };
    let objects = items.iter().map(|item| decoded(&resource, encoding, item));
    let objects: Vec<_> = objects.collect();
    let newest = objects.iter().map(|o| o.resource_version).max();
    Store::new(resource, objects, newest.expect("objects"))
}

fn decoded(resource: &Resource, encoding: Encoding, item: &Bytes) -> StoredObject {
    StoredObject::decode(encoding, item.clone(), &resource.fields, &resource.envelope)
        .expect("an object")
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

fn items(encoding: Encoding, body: &[u8]) -> Vec<Bytes> {
    let copied = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    match encoding {
        Encoding::Json => {
            let list: List = serde_json::from_slice(body).expect("a list");
            let items = list.items.iter();
            items.map(|item| copied(item.get().as_bytes())).collect()
        }
        Encoding::Protobuf => {
            let list = Answer::parse(body).expect("a list").message;
            let fields = Fields::new(list).map(|field| field.expect("a field"));
            fields
                .filter_map(|field| match field {
                    (2, Value::Bytes(item)) => Some(copied(item)),
                    _ => None,
                })
                .collect()
        }
    }
}
