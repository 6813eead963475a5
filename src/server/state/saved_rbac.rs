//! The RBAC objects in the cache, as rights. They are read when they are first
//! asked for, and again only after they changed: a bookmark changes nothing, and in
//! an outage nothing changes. What did not change itself is not read again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_watch_cache::ResourcePattern;
use apifront_watch_cache::reflector::Cache;
use apifront_watch_cache::store::{Progress, Scope, Snapshot, Store, StoredObject};
use async_trait::async_trait;
use bytes::Bytes;
use kubernetes_wire::api::GroupVersionResource;
use tokio::sync::Mutex;
use tokio::sync::watch::Receiver;

use crate::authz::rbac::{Binding, MalformedRbac, RbacObjects, Rights, Role, SavedRbac};
use crate::config::RBAC;

pub(in crate::server) struct CachedRbac {
    cache: Arc<Cache>,
    read: Mutex<Option<Read>>,
}

/// The rights that the objects of these snapshots give.
struct Read {
    snapshots: Vec<Arc<Snapshot>>,
    objects: Arc<ReadObjects>,
    rights: Arc<Rights>,
}

/// Objects that were read, by their places in memory, at which they are kept.
#[derive(Default)]
struct ReadObjects {
    roles: HashMap<usize, (Arc<StoredObject>, Arc<Role>)>,
    bindings: HashMap<usize, (Arc<StoredObject>, Arc<Binding>)>,
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
        let mut read = self.read.lock().await;
        let snapshots: Vec<_> = stores.iter().map(|store| store.snapshot()).collect();
        if let Some(read) = read.as_ref().filter(|read| read.is_of(&snapshots)) {
            return Some((read.rights.clone(), proven));
        }
        let before = read.as_ref().map(|read| read.objects.clone());
        let before = before.unwrap_or_default();
        let fresh = tokio::task::spawn_blocking(move || Read::of(&stores, snapshots, &before));
        let fresh = fresh.await.ok()??;
        let rights = fresh.rights.clone();
        *read = Some(fresh);
        Some((rights, proven))
    }
}

impl Read {
    /// Reads the objects that were not read before. `None` if one cannot be read.
    /// Nobody is then authorized, which shows the mistake, instead of some who lack
    /// the rights of that object.
    fn of(
        stores: &[Arc<Store>],
        snapshots: Vec<Arc<Snapshot>>,
        before: &ReadObjects,
    ) -> Option<Self> {
        let mut objects = ReadObjects::default();
        let mut all = RbacObjects {
            cluster_roles: Vec::new(),
            cluster_role_bindings: Vec::new(),
            roles: Vec::new(),
            role_bindings: Vec::new(),
        };
        for (n, (store, snapshot)) in stores.iter().zip(&snapshots).enumerate() {
            for object in snapshot.iter(&Scope::All) {
                let json = || object.json(&store.resource.envelope);
                let ReadObjects { roles, bindings } = &mut objects;
                // They are in the order of [`RBAC`].
                match n {
                    0 | 2 => {
                        let read = |json: Bytes| Role::read(&json);
                        let role = once(&before.roles, roles, object, json, read)?;
                        let there = match n {
                            0 => &mut all.cluster_roles,
                            _ => &mut all.roles,
                        };
                        there.push(role);
                    }
                    _ => {
                        let read = |json: Bytes| Binding::read(&json);
                        let binding = once(&before.bindings, bindings, object, json, read)?;
                        let there = match n {
                            1 => &mut all.cluster_role_bindings,
                            _ => &mut all.role_bindings,
                        };
                        there.push(binding);
                    }
                }
            }
        }
        Some(Self {
            snapshots,
            objects: Arc::new(objects),
            rights: Arc::new(Rights::of_objects(&all)),
        })
    }

    fn is_of(&self, snapshots: &[Arc<Snapshot>]) -> bool {
        let mut both = self.snapshots.iter().zip(snapshots);
        self.snapshots.len() == snapshots.len() && both.all(|(read, now)| read.has_objects_of(now))
    }
}

/// Returns what was read of the object before, or reads it.
fn once<T>(
    before: &HashMap<usize, (Arc<StoredObject>, Arc<T>)>,
    now: &mut HashMap<usize, (Arc<StoredObject>, Arc<T>)>,
    object: &Arc<StoredObject>,
    json: impl FnOnce() -> Option<Bytes>,
    read: impl FnOnce(Bytes) -> Result<T, MalformedRbac>,
) -> Option<Arc<T>> {
    let place = Arc::as_ptr(object).addr();
    let known = before.get(&place).map(|(_, known)| known.clone());
    let known = match known {
        Some(known) => known,
        None => match read(json()?) {
            Ok(fresh) => Arc::new(fresh),
            Err(error) => {
                tracing::warn!(%error, "rights cannot be read from the cache");
                return None;
            }
        },
    };
    now.insert(place, (object.clone(), known.clone()));
    Some(known)
}
