//! Measures the store alone, without any server: 150,000 objects of 1 KB, the events
//! of an upstream watch, the frames for ten watchers, and lists.
//!
//! `make bench ARGS='store --objects 150000 --events 100000'`

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::support::report::{self, Goal, percentile};
use crate::support::{count, usage};
use apifront_watch_cache::store::{
    Filter, KeyScope, Resource, Store, StoreWriter, StoredObject, field_table,
};
use apifront_watch_cache::watch::{Watch, WatchOptions, WholeFrames};
use bytes::Bytes;
use kubernetes_wire::api::{FieldSelector, GroupVersionResource, LabelSelector};
use kubernetes_wire::representation::{Encoding, Envelope, EventType, Form};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::JoinHandle;

const NAMESPACES: usize = 150;
const WATCHERS: usize = 10;
/// The number of events between two turns of the watchers: one, as in quiet times,
/// or as many as a read of 64 KiB brings.
const EVENTS_A_TURN: [usize; 2] = [1, 64];
const EVENTS_GOAL: f64 = 20_000.0;
const LISTS: usize = 200;
/// The size of an object's data.
const DATA_BYTES: usize = 500;

pub fn main() {
    crate::support::run(store());
}

async fn store() {
    let (objects, events) = (count("objects", 150_000), count("events", 100_000));
    let resident = usage::resident_bytes(std::process::id());
    let began = usage::cpu_time(std::process::id());
    let (writer, store) = filled(objects);
    let filling = usage::cpu_time(std::process::id()) - began;
    let resident = usage::resident_bytes(std::process::id()) - resident;
    let json: usize = store
        .snapshot()
        .iter(&KeyScope::All)
        .map(|o| o.size())
        .sum();
    println!(
        "{objects} objects of {} bytes: {} bytes resident each ({:.2}x), filled in {:.1} CPU s",
        json / objects,
        resident as usize / objects,
        resident as f64 / json as f64,
        filling.as_secs_f64(),
    );

    println!("\n{events} events, {WATCHERS} watchers of all objects");
    let mut rows = Vec::new();
    let mut rates = Vec::new();
    let mut version = objects as u64;
    for events_a_turn in EVENTS_A_TURN {
        let (cpu, bytes) = apply((&writer, &store), &mut version, events, events_a_turn).await;
        let rate = events as f64 / cpu.as_secs_f64();
        rates.push((events_a_turn, rate));
        rows.push(vec![
            format!("{events_a_turn}"),
            format!("{rate:.0}"),
            format!("{:.2}", cpu.as_secs_f64() * 1e6 / events as f64),
            format!("{:.0}", bytes as f64 / 1e6),
        ]);
    }
    let heads = ["events a turn", "events/CPU s", "CPU µs/event", "MB out"];
    report::table(&heads, &rows);
    for (events_a_turn, rate) in rates {
        let what = format!("events per CPU second, {events_a_turn} a turn");
        report::compare(&what, rate, "", Goal::AtLeast(EVENTS_GOAL));
    }

    println!("\n{LISTS} reads of each kind");
    let snapshot = store.snapshot();
    let filter = |labels: &str| {
        let labels = LabelSelector::parse(labels).expect("a selector");
        let fields = FieldSelector::parse("").expect("a selector");
        Filter::new("", labels, fields, &store.resource).expect("a filter")
    };
    let nothing = filter("app=none");
    let rows = [
        timed("selector that matches nothing", || {
            let all = snapshot.iter(&nothing.scope);
            assert_eq!(all.filter(|o| nothing.matches(o)).count(), 0);
        }),
        timed("all items", || {
            let items = snapshot.iter(&KeyScope::All);
            assert_eq!(items.filter(|o| o.size() > DATA_BYTES).count(), objects);
        }),
        timed("one namespace", || {
            let scope = KeyScope::from_namespace(&namespace(7));
            assert_eq!(snapshot.iter(&scope).count(), objects.div_ceil(NAMESPACES));
        }),
        timed("one object", || {
            assert!(snapshot.get(&namespace(7), &name(7)).is_some());
        }),
        timed("snapshot", || {
            assert_eq!(store.snapshot().resource_version, version);
        }),
    ];
    report::table(&["read", "p50 µs", "p99 µs"], &rows);
}

fn timed(what: &str, mut read: impl FnMut()) -> Vec<String> {
    let mut took = Vec::new();
    for _ in 0..LISTS {
        let began = Instant::now();
        read();
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let figure = |percent| format!("{:.1}", percentile(&took, percent));
    vec![what.to_owned(), figure(50.0), figure(99.0)]
}

/// Returns a store in which object `n` has version `n + 1`.
fn filled(objects: usize) -> (StoreWriter, Arc<Store>) {
    let gvr = GroupVersionResource::new("", "v1", "configmaps");
    let resource = Resource {
        fields: field_table(&gvr),
        gvr,
        namespaced: true,
        envelope: Envelope::new(Form::Struct, "v1", "ConfigMap", "ConfigMapList"),
        bookmark: OnceLock::new(),
    };
    let parsed = (0..objects).map(|n| {
        let item = resource.envelope.fragment(&object(n, n as u64 + 1));
        let item = Bytes::copy_from_slice(&item.expect("an object"));
        StoredObject::parse(item, &resource.fields).expect("an object")
    });
    let parsed = parsed.collect();
    Store::new(resource, parsed, objects as u64)
}

fn namespace(n: usize) -> String {
    format!("tenant-{:03}", n % NAMESPACES)
}

fn name(n: usize) -> String {
    format!("settings-{n:06}")
}

/// Returns an object of about 1 KB, as kube-apiserver writes it.
fn object(n: usize, version: u64) -> Bytes {
    let (namespace, name, data) = (namespace(n), name(n), "x".repeat(DATA_BYTES));
    let app = n % 100;
    let text = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"6d8f2a0e-5c3b-4f6e-9a51-{n:012x}","resourceVersion":"{version}","creationTimestamp":"2026-01-12T08:30:11Z","labels":{{"app":"app-{app}","tier":"backend"}},"managedFields":[{{"manager":"shop","operation":"Update","apiVersion":"v1","time":"2026-01-12T08:30:11Z","fieldsType":"FieldsV1","fieldsV1":{{"f:data":{{".":{{}},"f:settings":{{}}}},"f:metadata":{{"f:labels":{{".":{{}},"f:app":{{}},"f:tier":{{}}}}}}}}}}]}},"data":{{"settings":"{data}"}}}}"#
    );
    text.into()
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// Applies all events. Returns the CPU time, and the bytes for all watchers.
async fn apply(
    (writer, store): (&StoreWriter, &Arc<Store>),
    version: &mut u64,
    events: usize,
    events_a_turn: usize,
) -> (Duration, usize) {
    let objects = store.snapshot().len();
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|_| watcher(store, *version, events))
        .collect();
    // The watchers run until they wait for the first event.
    tokio::task::yield_now().await;
    let mut cpu = Duration::ZERO;
    let mut left = events;
    while left > 0 {
        // A turn's upstream events are made outside the measured time.
        let lines: Vec<Bytes> = (0..events_a_turn.min(left))
            .map(|_| {
                *version += 1;
                let n = *version as usize * 7919 % objects;
                let envelope = &store.resource.envelope;
                let object = envelope.fragment(&object(n, *version)).expect("an object");
                envelope.watch_frame(Encoding::Json, EventType::Modified, &object)
            })
            .collect();
        left -= lines.len();
        let began = usage::cpu_time(std::process::id());
        for line in &lines {
            receive(writer, store, line);
        }
        tokio::task::yield_now().await;
        cpu += usage::cpu_time(std::process::id()) - began;
    }
    let began = usage::cpu_time(std::process::id());
    let mut bytes = 0;
    for watcher in watchers {
        bytes += watcher.await.expect("all events");
    }
    (cpu + (usage::cpu_time(std::process::id()) - began), bytes)
}

/// Handles a line as the reflector does.
fn receive(writer: &StoreWriter, store: &Store, line: &Bytes) {
    let event: Line = serde_json::from_slice(line).expect("an event");
    assert_eq!(event.kind, "MODIFIED");
    let object = line.slice_ref(event.object.get().as_bytes());
    let item = store
        .resource
        .envelope
        .fragment(&object)
        .expect("an object");
    let item = Bytes::copy_from_slice(&item);
    writer
        .apply(false, item, Instant::now())
        .expect("an object");
}

/// Takes frames until all events have come, and returns their total length.
fn watcher(store: &Arc<Store>, version: u64, events: usize) -> JoinHandle<usize> {
    let labels = LabelSelector::parse("").expect("a selector");
    let fields = FieldSelector::parse("").expect("a selector");
    let options = WatchOptions {
        filter: Filter::new("", labels, fields, &store.resource).expect("a filter"),
        bookmarks: false,
        lasts: Duration::from_secs(3600),
    };
    let frames = Box::new(WholeFrames::new(store.clone(), Encoding::Json));
    let watch = Watch::from_version(store.clone(), version, options, frames);
    let mut watch = watch.expect("the version is in the log");
    tokio::spawn(async move {
        let (mut seen, mut bytes) = (0, 0);
        while seen < events {
            let (frames, events) = watch.next().await.expect("no end");
            seen += events;
            bytes += frames.len();
        }
        bytes
    })
}
