//! Follows upstream's APIServices, which tell which group versions upstream serves
//! itself. Only those are cached, and the resources that `cache.aggregated` names.

use std::sync::Arc;
use std::time::Duration;

use apifront_upstream::{Upstream, UpstreamKind};
use apifront_watch_cache::reflector::{ByGroup, Entry, Selection, Server, Servers, Unavailable};
use apifront_watch_cache::store::Store;
use arc_swap::ArcSwap;
use http::StatusCode;
use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use serde::Deserialize;
use tokio::time::{sleep, timeout};

use super::generation::Generation;
use super::settings::ServerSettings;
use crate::aggregation::api_service_objects::api_services;

/// How long one look waits for the first list.
const FILLS_WITHIN: Duration = Duration::from_secs(1);

/// The time between two looks whether upstream has APIServices.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// The time between two looks while upstream refuses APIServices.
const REFUSED_LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// The time between two looks whether the store is still in use.
const IN_USE_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// apifront needs the APIServices itself, whichever resources it serves.
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
    service: Option<Service>,
}

#[derive(Deserialize)]
struct Service {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    port: Option<i64>,
}

impl Spec {
    fn server(self) -> (GroupVersion, Server) {
        let server = match self.service {
            None => Server::Upstream,
            Some(service) => {
                let port = service.port.unwrap_or(443);
                Server::Service(format!("{}/{}:{port}", service.namespace, service.name))
            }
        };
        let group_version = GroupVersion {
            group: self.group,
            version: self.version,
        };
        (group_version, server)
    }
}

/// Tells the cache which group versions upstream serves itself, forever.
pub(in crate::server) async fn follow(current: Arc<ArcSwap<Generation>>) {
    let mut warned = false;
    loop {
        let generation = current.load_full();
        let gvr = api_services();
        let found = generation.cache.lookup_within(&gvr, &Needed, FILLS_WITHIN);
        match found.await {
            Ok(entry) => {
                drop(generation);
                follow_entry(&current, &entry).await;
                warned = false;
            }
            Err(Unavailable::Refused) => {
                let cache = generation.cache.clone();
                let upstream = generation.upstream.load_full();
                let Some(servers) = without_api_services(&upstream).await else {
                    sleep(LOOK_INTERVAL).await;
                    continue;
                };
                if !warned && servers == Servers::Unreadable {
                    tracing::warn!(
                        "apifront may not read APIServices: custom resources are not cached"
                    );
                }
                warned = true;
                cache.served_by(servers, None, generation.settings.as_ref());
                drop(generation);
                // Another upstream may have them.
                let _ = timeout(REFUSED_LOOK_INTERVAL, cache.unknown()).await;
            }
            Err(_) => {
                drop(generation);
                sleep(LOOK_INTERVAL).await;
            }
        }
    }
}

/// Tells the cache of each change, until the entry's store is closed.
async fn follow_entry(current: &ArcSwap<Generation>, entry: &Entry) {
    let Some(store) = entry.store() else { return };
    let mut progress = store.subscribe();
    // The last report to the cache, and the settings at that time.
    let mut told: Option<(ByGroup, Arc<ServerSettings>)> = None;
    let mut is_readable = true;
    loop {
        if progress.borrow_and_update().closed {
            return;
        }
        let generation = current.load_full();
        let (cache, settings) = (&generation.cache, &generation.settings);
        // If nobody else reads the resource, the cache would drop it.
        cache.touch(&api_services());
        let read = servers(&store);
        if read.is_none() && is_readable {
            tracing::warn!("an APIService cannot be read: changes of APIServices are not noticed");
        }
        is_readable = read.is_some();
        if let Some(servers) = read {
            let is_told = told
                .as_ref()
                .is_some_and(|told| told.0 == servers && Arc::ptr_eq(&told.1, settings));
            if !is_told {
                let known = Servers::Known(servers.clone());
                cache.served_by(known, Some(entry), settings.as_ref());
                told = Some((servers, settings.clone()));
            }
        }
        drop(generation);
        if let Ok(Err(_)) = timeout(IN_USE_LOOK_INTERVAL, progress.changed()).await {
            return;
        }
    }
}

/// Returns the server that each APIService names. Returns `None` if an APIService
/// cannot be read.
fn servers(store: &Store) -> Option<ByGroup> {
    let objects = store.snapshot().json(&store.resource.envelope)?;
    let specs = objects.iter().map(|object| {
        let ApiService { spec } = serde_json::from_slice(object).ok()?;
        Some(spec.server())
    });
    specs.collect()
}

/// Returns what a server serves whose APIServices cannot be read. If it has no
/// APIServices, it serves all groups itself; else nothing is known. Returns `None`
/// if the server does not answer.
async fn without_api_services(upstream: &Upstream) -> Option<Servers> {
    let path = format!("/apis/{}", api_services().group_version());
    let answer = upstream.get(UpstreamKind::Discovery, &path).await.ok()?;
    match answer.status() {
        StatusCode::NOT_FOUND => Some(Servers::UpstreamAlone),
        status if status.is_server_error() => None,
        _ => Some(Servers::Unreadable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_tells_remote_from_local() {
        let read = |spec: &str| {
            let text = format!(r#"{{"metadata":{{"name":"x"}},"spec":{spec}}}"#);
            let service: ApiService = serde_json::from_str(&text).unwrap();
            service.spec.server()
        };
        let remote = |text: &str| Server::Service(text.to_owned());
        for (spec, group, server) in [
            (
                r#"{"version":"v1","groupPriorityMinimum":1}"#,
                "",
                Server::Upstream,
            ),
            (
                r#"{"group":"a.b","version":"v1","service":null}"#,
                "a.b",
                Server::Upstream,
            ),
            (
                r#"{"group":"a.b","version":"v1","service":{"name":"x","namespace":"y"}}"#,
                "a.b",
                remote("y/x:443"),
            ),
            (
                r#"{"group":"a.b","version":"v1","service":{"name":"x","namespace":"y","port":8}}"#,
                "a.b",
                remote("y/x:8"),
            ),
        ] {
            let group_version = GroupVersion {
                group: group.to_owned(),
                version: "v1".to_owned(),
            };
            assert_eq!(read(spec), (group_version, server), "{spec}");
        }
    }
}
