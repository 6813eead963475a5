//! The RBAC objects in the cache, as rights. They are read when they are first
//! asked for, and again only after they changed: in an outage they do not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_watch_cache::ResourcePattern;
use apifront_watch_cache::reflector::Cache;
use apifront_watch_cache::store::{Progress, Store};
use async_trait::async_trait;
use kubernetes_wire::api::GroupVersionResource;
use tokio::sync::Mutex;
use tokio::sync::watch::Receiver;

use crate::authz::rbac::{RbacObjects, Rights, SavedRbac};
use crate::config::RBAC;

pub(in crate::server) struct CachedRbac {
    cache: Arc<Cache>,
    read: Mutex<Option<Read>>,
}

/// The rights that the objects at these versions give.
struct Read {
    versions: Vec<u64>,
    rights: Arc<Rights>,
}

/// The stores of RBAC's resources, in the order of [`RBAC`].
struct Stores {
    stores: Vec<Arc<Store>>,
    /// The last moment at which all of them were known to be as upstream.
    proven: Instant,
}

impl CachedRbac {
    pub(in crate::server) fn new(cache: Arc<Cache>) -> Self {
        Self {
            cache,
            read: Mutex::default(),
        }
    }

    /// Returns receivers that are told when an object may have changed.
    pub(super) fn subscribe(&self) -> Vec<Receiver<Progress>> {
        let entries = self.cache.entries();
        let of_rbac = entries.iter().filter(|entry| is_of_rbac(&entry.gvr));
        let stores = of_rbac.filter_map(|entry| entry.store());
        stores.map(|store| store.subscribe()).collect()
    }

    /// Tells whether upstream was lost for longer than this, or never found.
    pub(super) fn is_lost(&self, longer_than: Duration) -> bool {
        let now = Instant::now();
        let entries = self.cache.entries();
        let mut of_rbac = entries.iter().filter(|entry| is_of_rbac(&entry.gvr));
        of_rbac.any(|entry| entry.disconnected_for(now) > longer_than)
    }

    fn stores(&self) -> Option<Stores> {
        let mut stores = Vec::new();
        let mut proven = None;
        let entries = self.cache.entries();
        for pattern in RBAC {
            let pattern = ResourcePattern::parse(pattern)?;
            let entry = entries.iter().find(|entry| pattern.matches(&entry.gvr))?;
            let at = entry.proven_at()?;
            proven = Some(proven.map_or(at, |before: Instant| before.min(at)));
            stores.push(entry.store()?);
        }
        Some(Stores {
            stores,
            proven: proven?,
        })
    }
}

fn is_of_rbac(gvr: &GroupVersionResource) -> bool {
    let mut patterns = RBAC.iter().filter_map(|p| ResourcePattern::parse(p));
    patterns.any(|pattern| pattern.matches(gvr))
}

#[async_trait]
impl SavedRbac for CachedRbac {
    async fn rights(&self) -> Option<(Arc<Rights>, Instant)> {
        let Stores { stores, proven } = self.stores()?;
        let versions: Vec<u64> = stores
            .iter()
            .map(|store| store.snapshot().resource_version)
            .collect();
        let mut read = self.read.lock().await;
        if let Some(read) = read.as_ref().filter(|read| read.versions == versions) {
            return Some((read.rights.clone(), proven));
        }
        let rights = tokio::task::spawn_blocking(move || rights(&stores));
        let (versions, rights) = rights.await.ok()??;
        let rights = Arc::new(rights);
        *read = Some(Read {
            versions,
            rights: rights.clone(),
        });
        Some((rights, proven))
    }
}

/// Reads the rights, and returns them with the versions of the objects. `None`
/// if an object cannot be read. Nobody is then authorized, which shows the
/// mistake, instead of some who lack the rights of that object.
fn rights(stores: &[Arc<Store>]) -> Option<(Vec<u64>, Rights)> {
    let mut versions = Vec::new();
    let mut all = Vec::new();
    for store in stores {
        let snapshot = store.snapshot();
        versions.push(snapshot.resource_version);
        all.push(snapshot.json(&store.resource.envelope)?);
    }
    let [cluster_roles, cluster_role_bindings, roles, role_bindings] = all.try_into().ok()?;
    let objects = RbacObjects {
        cluster_roles,
        cluster_role_bindings,
        roles,
        role_bindings,
    };
    match Rights::read(&objects) {
        Ok(rights) => Some((versions, rights)),
        Err(error) => {
            tracing::warn!(%error, "rights cannot be read from the cache");
            None
        }
    }
}
