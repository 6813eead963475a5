//! All cached resources: a reflector is started when one is first asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apifront_upstream::Upstream;
use arc_swap::ArcSwap;
use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::discovery;
use super::entry::Entry;
use super::memory_pool::MemoryPool;
use super::run::{self, ReflectorContext};
use crate::ResourcePattern;
use crate::metrics::Metrics;

/// Resources watched at most. A cluster with more CustomResourceDefinitions
/// than this has the rest answered upstream.
const MAX_RESOURCES: usize = 4096;

/// How long a resource that upstream refuses is not asked for again.
pub(super) const REFUSAL: Duration = Duration::from_secs(10);

/// Why a resource cannot be read from the cache now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// Configuration keeps it out.
    Excluded,
    /// Its first list is under way.
    Filling,
    /// Upstream does not let us list and watch it.
    Refused,
    /// There are too many resources.
    Full,
    /// There is no memory for it.
    MemoryLimit,
}

/// Which resources may be cached.
pub trait Selection: Send + Sync {
    fn allows(&self, gvr: &GroupVersionResource) -> bool;
}

/// A group version and the servers that answer for it.
pub type Route = (GroupVersion, Arc<ArcSwap<Upstream>>);

pub struct Cache {
    pub(super) entries: RwLock<HashMap<GroupVersionResource, Arc<Entry>>>,
    upstream: Arc<ArcSwap<Upstream>>,
    /// Whom to ask for group versions that are not the upstream's, by
    /// descending priority.
    routes: RwLock<Vec<Route>>,
    pub(super) metrics: Metrics,
    /// Raised when upstream was replaced by another.
    replaced: watch::Sender<u64>,
    tasks: parking_lot::Mutex<JoinSet<()>>,
    /// There is a reason to look after the entries now.
    pub(super) attention: Arc<Notify>,
    /// Memory for stores and for what is being read.
    pub(super) memory: Arc<MemoryPool>,
    /// No more resources are taken in: there is no memory for them.
    pub(super) full: AtomicBool,
}

impl Cache {
    pub fn new(upstream: Arc<ArcSwap<Upstream>>, metrics: Metrics) -> Self {
        let attention = Arc::new(Notify::new());
        let memory = MemoryPool::new(attention.clone(), metrics.memory.reading.clone());
        Self {
            entries: RwLock::default(),
            upstream,
            routes: RwLock::default(),
            metrics,
            replaced: watch::channel(0).0,
            tasks: parking_lot::Mutex::default(),
            attention,
            memory: Arc::new(memory),
            full: AtomicBool::new(false),
        }
    }

    /// The entry of a resource that can be read. The first question for a
    /// resource starts its reflector.
    pub fn lookup(
        &self,
        gvr: &GroupVersionResource,
        selection: &dyn Selection,
    ) -> Result<Arc<Entry>, Unavailable> {
        if !selection.allows(gvr) {
            return Err(Unavailable::Excluded);
        }
        let now = Instant::now();
        let known = {
            let entries = self.entries.read();
            // Under the lock: whoever would stop the entry sees it used.
            entries.get(gvr).inspect(|entry| entry.touch(now)).cloned()
        };
        match known {
            Some(entry) if entry.store().is_some() => Ok(entry),
            Some(entry) => match entry.refusal() {
                Some((until, why)) if until > now => Err(why),
                Some(_) => self.start(gvr, now),
                None => Err(Unavailable::Filling),
            },
            None => self.start(gvr, now),
        }
    }

    /// As [`Cache::lookup`], but waits for a first list that is under way.
    pub async fn lookup_within(
        &self,
        gvr: &GroupVersionResource,
        selection: &dyn Selection,
        wait: Duration,
    ) -> Result<Arc<Entry>, Unavailable> {
        let found = self.lookup(gvr, selection);
        if found.as_ref().err() != Some(&Unavailable::Filling) {
            return found;
        }
        let filling = self.entries.read().get(gvr).cloned();
        let entry = filling.ok_or(Unavailable::Filling)?;
        match entry.store_within(wait).await {
            Some(_) => Ok(entry),
            None => Err(Unavailable::Filling),
        }
    }

    /// Starts a resource without serving from it yet. A version that is not
    /// given is the one upstream prefers, whenever upstream can be asked.
    pub async fn preload(&self, pattern: &ResourcePattern, selection: &dyn Selection) {
        let gvr = match pattern {
            ResourcePattern::Exact(gvr) => gvr.clone(),
            ResourcePattern::GroupResource { group, resource } => {
                let version = match self.routed_version(group) {
                    Some(version) => version,
                    None => discovery::preferred_version(&self.upstream, group).await,
                };
                GroupVersionResource::new(group, &version, resource)
            }
            ResourcePattern::All | ResourcePattern::Group(_) => return,
        };
        if let Err(Unavailable::Excluded | Unavailable::Full) = self.lookup(&gvr, selection) {
            tracing::warn!(resource = %gvr, "cannot be preloaded: excluded from the cache");
        }
        if let Some(entry) = self.entries.read().get(&gvr) {
            entry.preload(true);
        }
    }

    /// Starts a resource anew that upstream refused some time ago.
    pub(super) fn ask_again(&self, entry: &Entry, now: Instant) {
        if entry.refusal().is_some_and(|(until, _)| until <= now) {
            let _filling = self.start(&entry.gvr, now);
        }
    }

    fn start(&self, gvr: &GroupVersionResource, now: Instant) -> Result<Arc<Entry>, Unavailable> {
        let mut entries = self.entries.write();
        if let Some(entry) = entries.get(gvr)
            && entry.refusal().is_none_or(|(until, _)| until > now)
        {
            // Another request was first.
            return Err(Unavailable::Filling);
        }
        if self.full.load(Ordering::Relaxed) {
            return Err(Unavailable::MemoryLimit);
        }
        if entries.len() >= MAX_RESOURCES {
            entries.retain(|_, e| e.refusal().is_none());
            if entries.len() >= MAX_RESOURCES {
                return Err(Unavailable::Full);
            }
        }
        let upstream = self.upstream_of(gvr);
        let entry = Arc::new(Entry::new(gvr.clone(), upstream.clone(), now));
        if let Some(before) = entries.insert(gvr.clone(), entry.clone()) {
            entry.preload(before.is_preloaded());
        }
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(run::run(
            entry,
            ReflectorContext {
                upstream,
                metrics: self.metrics.clone(),
                replaced: self.replaced.subscribe(),
                grown: self.attention.clone(),
                memory: self.memory.clone(),
            },
        ));
        Err(Unavailable::Filling)
    }

    /// Lists everything again, from whatever upstream is now.
    pub fn upstream_replaced(&self) {
        self.replaced.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Every resource known, for metrics and debugging.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        self.entries.read().values().cloned().collect()
    }

    pub fn upstream(&self) -> Arc<Upstream> {
        self.upstream.load_full()
    }

    /// Who answers for a resource.
    fn upstream_of(&self, gvr: &GroupVersionResource) -> Arc<ArcSwap<Upstream>> {
        let routes = self.routes.read();
        let of = |(gv, _): &&Route| gv.group == gvr.group && gv.version == gvr.version;
        let found = routes.iter().find(of);
        found.map_or_else(|| self.upstream.clone(), |(_, upstream)| upstream.clone())
    }

    fn routed_version(&self, group: &str) -> Option<String> {
        let routes = self.routes.read();
        let found = routes.iter().find(|(gv, _)| gv.group == group);
        found.map(|(gv, _)| gv.version.clone())
    }

    /// From now on these servers answer for these group versions. What came
    /// from others before is dropped, and its watchers are closed.
    pub fn route(&self, routes: Vec<Route>) {
        *self.routes.write() = routes;
        for entry in self.entries() {
            let owner = self.upstream_of(&entry.gvr);
            let moved = |entry: &Entry| !Arc::ptr_eq(&entry.owner, &owner);
            self.stop(&entry.gvr, "served by another server now", moved);
        }
    }
}
