//! Follows upstream's APIServices, which tell the group versions that upstream
//! serves itself. Only those are cached, and those that the owner vouches for.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use apifront_upstream::{Upstream, UpstreamKind};
use apifront_watch_cache::reflector::{Local, Selection, Unavailable};
use apifront_watch_cache::store::Store;
use arc_swap::ArcSwap;
use http::StatusCode;
use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::{sleep, timeout};

use super::generation::Generation;
use crate::config::{Config, api_services};

/// The time that the first list may take before another look.
const FILLS_WITHIN: Duration = Duration::from_secs(1);

/// The time between two looks whether upstream has APIServices.
const LOOK: Duration = Duration::from_millis(200);

/// The same where upstream refuses them.
const REFUSED: Duration = Duration::from_secs(10);

/// The time between two looks whether the store is still read.
const STILL: Duration = Duration::from_secs(1);

/// This process needs the APIServices, whatever is served of them.
struct Needed;

impl Selection for Needed {
    fn allows(&self, _: &GroupVersionResource) -> bool {
        true
    }

    fn trusts(&self, _: &GroupVersionResource) -> bool {
        true
    }
}

#[derive(Deserialize)]
struct ApiService {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    group: String,
    version: String,
    service: Option<IgnoredAny>,
}

/// Tells the cache what upstream serves itself, for ever.
pub(in crate::server) async fn follow(current: Arc<ArcSwap<Generation>>) {
    let mut told = false;
    loop {
        let generation = current.load_full();
        let gvr = api_services();
        let found = generation.cache.lookup_within(&gvr, &Needed, FILLS_WITHIN);
        match found.await.map(|entry| entry.store()) {
            Ok(Some(store)) => {
                drop(generation);
                follow_store(&current, &store).await;
                told = false;
            }
            Err(Unavailable::Refused) => {
                let local = without_api_services(&generation.cache.upstream()).await;
                if let Some(local) = local {
                    if !told && local != Local::All {
                        tracing::warn!(
                            "apifront may not read APIServices: custom resources are not cached"
                        );
                    }
                    told = true;
                    tell(&generation, local);
                }
                drop(generation);
                sleep(if told { REFUSED } else { LOOK }).await;
            }
            Ok(None) | Err(_) => {
                drop(generation);
                sleep(LOOK).await;
            }
        }
    }
}

fn tell(generation: &Generation, local: Local) {
    let config = generation.config.as_ref();
    generation.cache.serves_itself(local, config);
}

/// Tells the cache of each change, until the store is closed.
async fn follow_store(current: &ArcSwap<Generation>, store: &Store) {
    let mut progress = store.subscribe();
    // What was told last, under which configuration.
    let mut told: Option<(Local, Arc<Config>)> = None;
    loop {
        if progress.borrow_and_update().closed {
            return;
        }
        let generation = current.load_full();
        let (cache, config) = (&generation.cache, &generation.config);
        // Nobody else may read the resource, which would then be dropped.
        cache.touch(&api_services());
        match local_groups(store) {
            Some(local) => {
                let now = (local, config.clone());
                let is_new = told
                    .as_ref()
                    .is_none_or(|told| told.0 != now.0 || !Arc::ptr_eq(&told.1, &now.1));
                if is_new {
                    cache.serves_itself(now.0.clone(), config.as_ref());
                    told = Some(now);
                }
            }
            None => tracing::warn!("an APIService cannot be read"),
        }
        drop(generation);
        if let Ok(Err(_)) = timeout(STILL, progress.changed()).await {
            return;
        }
    }
}

fn local_groups(store: &Store) -> Option<Local> {
    let objects = store.snapshot().json(&store.resource.envelope)?;
    let mut local = HashSet::new();
    for object in objects {
        let ApiService { spec } = serde_json::from_slice(&object).ok()?;
        if spec.service.is_none() {
            local.insert(GroupVersion {
                group: spec.group,
                version: spec.version,
            });
        }
    }
    Some(Local::These(local))
}

/// Returns what is served by a server whose APIServices cannot be read: all, if it
/// has none; else nothing is known. `None` if it does not answer.
async fn without_api_services(upstream: &Upstream) -> Option<Local> {
    let path = format!("/apis/{}", api_services().group_version());
    let answer = upstream.get(UpstreamKind::Discovery, &path).await.ok()?;
    match answer.status() {
        StatusCode::NOT_FOUND => Some(Local::All),
        status if status.is_server_error() => None,
        _ => Some(Local::These(HashSet::new())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_tells_remote_from_local() {
        let read = |spec: &str| {
            let text = format!(r#"{{"metadata":{{"name":"x"}},"spec":{spec}}}"#);
            serde_json::from_str::<ApiService>(&text)
                .unwrap()
                .spec
                .service
                .is_none()
        };
        assert!(read(r#"{"version":"v1","groupPriorityMinimum":1}"#));
        assert!(read(r#"{"group":"a.b","version":"v1","service":null}"#));
        assert!(!read(
            r#"{"group":"a.b","version":"v1","service":{"name":"x","namespace":"y"}}"#
        ));
    }
}
