//! What follows the second writer: kube-runtime's watchers and their stores.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{Lookup, Store, reflector, store};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client, Resource, ResourceExt};
use serde::Deserialize;
use serde_json::json;

use crate::runner::{hear, say};

/// The longest time that an informer may take for all changes.
const PATIENCE: Duration = Duration::from_secs(120);

type Contents = BTreeMap<String, String>;

/// Returns what an informer holds.
type Informer = Box<dyn Fn() -> Contents>;

#[derive(Deserialize)]
struct Finish {
    last: String,
}

pub async fn follow(client: &Client, namespace: &str) -> Result<()> {
    let maps = || Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let partial = Api::<PartialObjectMeta<ConfigMap>>::namespaced(client.clone(), namespace);
    let listed = watcher::Config::default;
    let paged = || listed().page_size(7);
    let streamed = || listed().streaming_lists();
    let informers: BTreeMap<&str, Informer> = BTreeMap::from([
        ("watcher", start(watch(maps(), listed()))),
        ("watcher by pages", start(watch(maps(), paged()))),
        ("watcher by WatchList", start(watch(maps(), streamed()))),
        ("metadata watcher", start(watch(partial, listed()))),
    ]);
    for informer in informers.values() {
        holds(informer, "first").await;
    }
    say(&json!({ "step": "synced" }));
    let finish: Finish = tokio::task::spawn_blocking(hear).await??;
    for informer in informers.values() {
        holds(informer, &finish.last).await;
    }
    let held: BTreeMap<_, _> = informers.iter().map(|(name, i)| (name, i())).collect();
    say(&json!({ "informers": held }));
    Ok(())
}

/// Waits until the informer holds this object, or patience ends: then the
/// runner finds that it does not.
async fn holds(informer: &Informer, name: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !informer().contains_key(name) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Drives a watcher, which tries again after each error.
fn start<K>(events: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static) -> Informer
where
    K: Resource
        + Lookup<DynamicType = <K as Resource>::DynamicType>
        + Clone
        + Debug
        + Send
        + Sync
        + 'static,
    <K as Resource>::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
{
    let (reader, writer): (Store<K>, _) = store();
    let reflected = reflector(writer, events.default_backoff());
    tokio::spawn(async move {
        let mut events = std::pin::pin!(reflected);
        while let Some(event) = events.next().await {
            if let Err(error) = event {
                eprintln!("{error}");
            }
        }
    });
    Box::new(move || {
        let objects = reader.state();
        let version = |object: &K| object.resource_version().unwrap_or_default().into_owned();
        objects.iter().map(|o| (o.name_any(), version(o))).collect()
    })
}
