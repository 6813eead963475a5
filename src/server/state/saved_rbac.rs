//! The RBAC objects in the cache, as rights. All objects are read when the rights
//! are first asked for, and later only the changes. Bookmarks change nothing, and
//! nothing changes during an outage.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_watch_cache::read::{AnswerSource, Consistent, Freshness, LastWrite};
use apifront_watch_cache::reflector::{Cache, Entry};
use apifront_watch_cache::store::{
    BytesBeside, Change, Cursor, Evicted, KeyScope, ObjectKey, Progress, Store, StoredObject,
};
use apifront_watch_cache::{Consistency, ResourcePattern};
use async_trait::async_trait;
use futures::future::join_all;
use kubernetes_wire::api::GroupVersionResource;
use tokio::sync::watch::Receiver;
use tokio::sync::{Mutex, OnceCell};

use crate::authz::rbac::{Binding, Index, Key, MalformedRbac, RBAC, Rights, Role, SavedRbac};

/// How many events are read at a time. Between two reads, the log can be written.
const EVENTS_AT_A_TIME: usize = 1_000;

/// How long the first question waits for the objects, which are read at the start. Herds
/// of clients come just then, after a restart.
const FIRST_WAITS: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long upstream may take to say that the objects are current. After it, requests
/// need reviews.
const PROVEN_WITHIN: Duration = Duration::from_secs(1);

pub(in crate::server) struct CachedRbac {
    cache: Arc<Cache>,
    read: Mutex<Option<Read>>,
    /// All questions that come before the objects wait together.
    waited: OnceCell<()>,
}

struct Read {
    followed: Vec<Followed>,
    index: Index,
    /// Objects that cannot be read. While there is one, nobody is authorized. That
    /// makes the mistake visible. Otherwise only some callers would lack rights.
    unreadable: HashSet<(Kind, Key)>,
    rights: Arc<Rights>,
    /// The memory of the index counts as that of the first store.
    beside: Option<BytesBeside>,
}

/// A store of an RBAC resource, and the place in its log up to which it was read.
struct Followed {
    store: Arc<Store>,
    kind: Kind,
    cursor: Cursor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Role,
    Binding,
}

/// The stores of the RBAC resources, in the order of [`RBAC`].
struct Stores {
    stores: Vec<Arc<Store>>,
    /// The last moment at which all stores were known to be the same as upstream.
    proven: Instant,
}

impl CachedRbac {
    pub(in crate::server) fn new(cache: Arc<Cache>) -> Self {
        Self {
            cache,
            read: Mutex::default(),
            waited: OnceCell::new(),
        }
    }

    /// Returns receivers that wake when an object may have changed.
    pub(super) fn subscribe(&self) -> Vec<Receiver<Progress>> {
        let entries = self.cache.entries();
        let of_rbac = entries.iter().filter(|entry| is_of_rbac(&entry.gvr));
        let stores = of_rbac.filter_map(|entry| entry.store());
        stores.map(|store| store.subscribe()).collect()
    }

    /// Tells whether upstream has been lost, or not found, for longer than this.
    pub(super) fn is_lost(&self, longer_than: Duration) -> bool {
        let now = Instant::now();
        let entries = self.cache.entries();
        let mut of_rbac = entries.iter().filter(|entry| is_of_rbac(&entry.gvr));
        of_rbac.any(|entry| entry.lifecycle().disconnected_for(now) > longer_than)
    }

    fn stores(&self) -> Option<Stores> {
        let mut stores = Vec::new();
        let mut proven = None;
        for entry in self.entries()? {
            let at = entry.freshness().proven_at()?;
            proven = Some(proven.map_or(at, |before: Instant| before.min(at)));
            stores.push(entry.store()?);
        }
        Some(Stores {
            stores,
            proven: proven?,
        })
    }

    /// Returns the entries of the RBAC resources, in the order of [`RBAC`].
    fn entries(&self) -> Option<Vec<Arc<Entry>>> {
        let entries = self.cache.entries();
        let of_rbac = RBAC.iter().map(|pattern| {
            let pattern = ResourcePattern::parse(pattern)?;
            let mut entries = entries.iter();
            entries.find(|entry| pattern.matches(&entry.gvr)).cloned()
        });
        of_rbac.collect()
    }

    /// Waits for the objects for some time, if they have never been in memory.
    async fn wait_for_first(&self) {
        let looks = async || {
            while self.stores().is_none() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let wait = async || {
            let _ = tokio::time::timeout(FIRST_WAITS, looks()).await;
        };
        self.waited.get_or_init(wait).await;
    }

    /// Asks upstream whether the objects are current, where that was last known before
    /// `age`. All resources share one question.
    async fn prove(&self, age: Duration) -> Option<()> {
        let proofs = self.entries()?.into_iter().map(async |entry| {
            let proven = entry.freshness().proven_at()?;
            if proven.elapsed() < age {
                return Some(());
            }
            let consistent = Consistent {
                entry: &entry,
                store: &*entry.store()?,
                mode: Consistency::Fresh,
                max_staleness: age,
                wrote: LastWrite::Nothing,
            };
            match consistent.ensure(Freshness::MostRecent).await {
                Ok(AnswerSource::Store(_)) => Some(()),
                Ok(AnswerSource::SharedRead) | Err(_) => None,
            }
        });
        join_all(proofs).await.into_iter().collect()
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
        let mut kept = self.read.lock().await;
        let read = match kept.take().filter(|read| read.is_of(&stores)) {
            Some(read) if read.is_current() => read,
            // Many objects or changes take long to read.
            before => {
                let read = tokio::task::spawn_blocking(move || Read::anew(before, stores));
                read.await.ok()??
            }
        };
        let rights = read.rights.clone();
        let is_readable = read.unreadable.is_empty();
        *kept = Some(read);
        is_readable.then_some((rights, proven))
    }

    async fn rights_within(&self, age: Duration) -> Option<(Arc<Rights>, Instant)> {
        self.wait_for_first().await;
        tokio::time::timeout(PROVEN_WITHIN, self.prove(age))
            .await
            .ok()??;
        self.rights().await
    }
}

impl Read {
    /// Reads the changes since `before`, or everything if they are not all known.
    fn anew(before: Option<Self>, stores: Vec<Arc<Store>>) -> Option<Self> {
        if let Some(mut before) = before
            && before.catch_up().is_ok()
        {
            return Some(before);
        }
        Self::read_all(stores)
    }

    /// Reads all objects. Returns `None` if a store cannot give its events from its
    /// snapshot on.
    fn read_all(stores: Vec<Arc<Store>>) -> Option<Self> {
        let mut read = Self {
            followed: Vec::new(),
            index: Index::default(),
            unreadable: HashSet::new(),
            rights: Arc::default(),
            beside: stores.first().map(|first| first.beside()),
        };
        // The stores are in the order of [`RBAC`].
        let kinds = [Kind::Role, Kind::Binding].into_iter().cycle();
        for (store, kind) in stores.into_iter().zip(kinds) {
            let snapshot = store.snapshot();
            let cursor = store.begin(snapshot.resource_version).ok()?;
            for object in snapshot.iter(&KeyScope::All) {
                read.take_up(&store, kind, object);
            }
            read.followed.push(Followed {
                store,
                kind,
                cursor,
            });
        }
        read.rights = read.index.rights();
        read.count();
        Some(read)
    }

    /// Counts the memory of the index, so that the memory limit includes it.
    fn count(&mut self) {
        if let Some(beside) = &mut self.beside {
            beside.set(self.index.bytes());
        }
    }

    fn is_of(&self, stores: &[Arc<Store>]) -> bool {
        let mut both = self.followed.iter().zip(stores);
        self.followed.len() == stores.len()
            && both.all(|(one, store)| Arc::ptr_eq(&one.store, store))
    }

    fn is_current(&self) -> bool {
        self.followed.iter().all(|one| {
            let next = one.store.read(&mut one.cursor.clone(), 1);
            next.is_ok_and(|next| next.is_empty())
        })
    }

    /// Reads the events since the last time. Fails if the log no longer has all of
    /// them.
    fn catch_up(&mut self) -> Result<(), Evicted> {
        let before = self.index.changes();
        for mut one in std::mem::take(&mut self.followed) {
            loop {
                let events = one.store.read(&mut one.cursor, EVENTS_AT_A_TIME)?;
                if events.is_empty() {
                    break;
                }
                for event in events {
                    match event.change {
                        Change::Deleted => self.remove(one.kind, &event.object.key),
                        Change::Added | Change::Modified => {
                            self.take_up(&one.store, one.kind, &event.object);
                        }
                    }
                }
            }
            self.followed.push(one);
        }
        if self.index.changes() != before {
            self.rights = self.index.rights();
            self.count();
        }
        Ok(())
    }

    fn take_up(&mut self, store: &Store, kind: Kind, object: &StoredObject) {
        let key = (kind, key_of(&object.key));
        // An object that has no JSON is treated as one that cannot be read.
        let json = object.json(&store.resource.envelope).unwrap_or_default();
        let read: Result<(), MalformedRbac> = match kind {
            Kind::Role => Role::read(&json).map(|role| self.index.put_role(role)),
            Kind::Binding => Binding::read(&json).map(|binding| self.index.put_binding(binding)),
        };
        match read {
            Ok(()) => drop(self.unreadable.remove(&key)),
            Err(error) => {
                tracing::warn!(%error, "rights cannot be read from the cache");
                self.remove(kind, &object.key);
                self.unreadable.insert(key);
            }
        }
    }

    fn remove(&mut self, kind: Kind, key: &ObjectKey) {
        let key = key_of(key);
        match kind {
            Kind::Role => self.index.remove_role(&key),
            Kind::Binding => self.index.remove_binding(&key),
        }
        self.unreadable.remove(&(kind, key));
    }
}

fn key_of(key: &ObjectKey) -> Key {
    (key.namespace().into(), key.name().into())
}
