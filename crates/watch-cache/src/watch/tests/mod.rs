//! Tests of watches on a store that is filled by hand.

mod bookmarks;
mod ends;
mod groups;
mod initial_events;
mod left_out;
mod log_events;
mod race;
mod replay;
mod views;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use kubernetes_wire::api::{FieldSelector, GroupVersionResource, LabelSelector, PartialObject};
use kubernetes_wire::representation::{BookmarkTemplate, Encoding, Envelope, Form};
use serde::Deserialize;

use super::{Watch, WatchEnd, WatchOptions, WholeFrames};
use crate::store::{
    Evicted, Filter, Resource, Snapshot, Store, StoreWriter, StoredObject, field_table,
};

/// No test lasts this long.
const HOUR: Duration = Duration::from_secs(3600);

fn resource() -> Resource {
    let gvr = GroupVersionResource::new("", "v1", "pods");
    let bookmark = br#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"1"},"spec":{"containers":null},"status":{}}"#;
    Resource {
        fields: field_table(&gvr),
        gvr,
        namespaced: true,
        envelope: Envelope::new(Form::Struct, "v1", "Pod", "PodList"),
        bookmark: BookmarkTemplate::learn(bookmark).unwrap().into(),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pod {
    namespace: String,
    name: String,
    uid: u64,
    version: u64,
    app: Option<String>,
    node: String,
}

impl Pod {
    fn new(namespace: &str, name: &str, version: u64) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            uid: 1,
            version,
            app: None,
            node: String::new(),
        }
    }

    fn item(&self) -> Bytes {
        let labels: BTreeMap<_, _> = self.app.iter().map(|app| ("app", app)).collect();
        serde_json::json!({
            "metadata": {
                "name": self.name, "namespace": self.namespace, "uid": self.uid.to_string(),
                "resourceVersion": self.version.to_string(), "labels": labels,
            },
            "spec": {"nodeName": self.node},
        })
        .to_string()
        .into()
    }

    fn stored(&self) -> StoredObject {
        StoredObject::parse(self.item(), &resource().fields).unwrap()
    }
}

fn filter(namespace: &str, labels: &str, fields: &str) -> Filter {
    Filter::new(
        namespace,
        LabelSelector::parse(labels).unwrap(),
        FieldSelector::parse(fields).unwrap(),
        &resource(),
    )
    .unwrap()
}

fn store_at(version: u64) -> (StoreWriter, Arc<Store>) {
    Store::new(resource(), vec![], version)
}

fn everything() -> Filter {
    filter("", "", "")
}

fn options(filter: Filter, lasts: Duration) -> WatchOptions {
    WatchOptions {
        filter,
        bookmarks: true,
        lasts,
    }
}

fn watch_from(store: &Arc<Store>, version: u64, options: WatchOptions) -> Result<Watch, Evicted> {
    let encoding = Box::new(WholeFrames::new(store.clone(), Encoding::Json));
    Watch::from_version(store.clone(), version, options, encoding)
}

fn watch_all(store: &Arc<Store>, snapshot: Arc<Snapshot>, options: WatchOptions) -> Watch {
    let encoding = Box::new(WholeFrames::new(store.clone(), Encoding::Json));
    Watch::with_initial_events(store.clone(), snapshot, options, encoding)
}

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    version: u64,
    ends_initial: bool,
    line: String,
}

impl Seen {
    fn brief(&self) -> (&str, &str, u64) {
        (&self.kind, &self.name, self.version)
    }
}

fn decode(batch: &[u8]) -> Vec<Seen> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(rename = "type")]
        kind: String,
        object: PartialObject,
    }
    let text = std::str::from_utf8(batch).unwrap();
    assert!(text.ends_with('\n'), "whole frames: {text}");
    text.lines()
        .map(|line| {
            let parsed: Line = serde_json::from_str(line).unwrap();
            let meta = parsed.object.metadata;
            Seen {
                kind: parsed.kind,
                namespace: meta.namespace,
                name: meta.name,
                uid: meta.uid,
                version: meta.resource_version.parse().unwrap(),
                ends_initial: line.contains("initial-events-end"),
                line: line.to_owned(),
            }
        })
        .collect()
}

async fn next(watch: &mut Watch) -> Result<Vec<Seen>, WatchEnd> {
    let (bytes, events) = watch.next().await?;
    let seen = decode(&bytes);
    assert_eq!(seen.len(), events);
    Ok(seen)
}

fn apply(writer: &StoreWriter, version: u64) {
    let item = Pod::new("ns", "a", version).item();
    writer.apply(false, item, Instant::now()).unwrap();
}
