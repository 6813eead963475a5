//! Tests of the reflector with an upstream that follows a script.

mod fake;
mod idle;
mod lists;
mod memory;
mod proofs;
mod resumes;
mod servers;
mod streams;
mod watches;

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_source::CurrentSource;
use arc_swap::ArcSwap;
use kubernetes_wire::api::GroupVersionResource;

use self::fake::{Fake, Reply};
use super::{Cache, Entry, Selection, Servers, Unavailable};
use crate::store::{Change, Cursor, Store};

struct Everything;

impl Selection for Everything {
    fn allows(&self, _: &GroupVersionResource) -> bool {
        true
    }

    fn trusts(&self, _: &GroupVersionResource) -> bool {
        true
    }
}

fn pods() -> GroupVersionResource {
    GroupVersionResource::new("", "v1", "pods")
}

fn widgets() -> GroupVersionResource {
    GroupVersionResource::new("example.com", "v1", "widgets")
}

fn cache(fake: &Fake) -> Cache {
    let upstream = Arc::new(ArcSwap::new(fake.0.clone()));
    let cache = Cache::new(upstream, Arc::new(()));
    cache.served_by(Servers::UpstreamAlone, None, &Everything);
    cache
}

/// Returns a server that answers nothing.
pub(super) fn nobody() -> Arc<dyn CurrentSource> {
    let fake = Fake::start(|_, _| Reply::Code(503, "nobody"));
    Arc::new(ArcSwap::new(fake.0))
}

/// Waits for something that must come. The minute is only used up if it does
/// not come.
async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} does not come");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn filled(cache: &Cache, gvr: &GroupVersionResource) -> (Arc<Entry>, Arc<Store>) {
    let entry = until("the first list", || cache.lookup(gvr, &Everything).ok()).await;
    let store = entry.store().unwrap();
    (entry, store)
}

async fn reaches(store: &Store, version: u64) {
    until("a version", || {
        (store.progress().resource_version >= version).then_some(())
    })
    .await;
}

fn events(store: &Store, cursor: &mut Cursor) -> Vec<(Change, String, u64)> {
    store
        .read(cursor, usize::MAX)
        .unwrap()
        .iter()
        .map(|e| {
            (
                e.change,
                e.object.key.as_str().to_owned(),
                e.resource_version,
            )
        })
        .collect()
}

fn keys(store: &Store) -> Vec<String> {
    store
        .snapshot()
        .iter(&crate::store::KeyScope::All)
        .map(|o| format!("{}@{}", o.key.as_str(), o.resource_version))
        .collect()
}

fn pod(name: &str, version: u64) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"a","uid":"u","resourceVersion":"{version}"}},"spec":{{}}}}"#
    )
}

fn widget(name: &str, version: u64) -> String {
    format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"{name}","namespace":"a","resourceVersion":"{version}","uid":"u"}}}}"#
    )
}

fn pod_page(version: u64, token: &str, items: &[String]) -> Reply {
    Reply::Body(format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":[{}]}}"#,
        items.join(",")
    ))
}

fn pod_list(version: u64, items: &[String]) -> Reply {
    pod_page(version, "", items)
}

fn widget_list(version: u64, items: &[String]) -> Reply {
    Reply::Body(format!(
        r#"{{"apiVersion":"example.com/v1","items":[{}],"kind":"WidgetList","metadata":{{"continue":"","resourceVersion":"{version}"}}}}"#,
        items.join(",")
    ))
}

fn event(kind: &str, pod: &str) -> String {
    let rest = pod.strip_prefix('{').unwrap();
    format!("{{\"type\":\"{kind}\",\"object\":{{\"kind\":\"Pod\",\"apiVersion\":\"v1\",{rest}}}\n")
}

fn bookmark(version: u64) -> String {
    event(
        "BOOKMARK",
        &format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#),
    )
}

fn expired() -> String {
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"too old resource version\"}}\n".to_owned()
}
