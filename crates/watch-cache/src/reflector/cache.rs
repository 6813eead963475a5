//! All cached resources. The first request for a resource starts its reflector.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apifront_shares::{Limits, Shares};
use apifront_source::{CurrentSource, Source};
use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::aggregated::Servers;
use super::discovery;
use super::earlier_answers::EarlierAnswers;
use super::entry::Entry;
use super::memory_pool::MemoryPool;
use super::run::{self, ReflectorContext};
use super::unavailable::Unavailable;
use super::version_question::SharedQuestion;
use super::withdrawn::Withdrawn;
use crate::saved::SavedStores;
use crate::store::{ListForm, Store};
use crate::{Observer, ResourcePattern};

/// The most resources that are watched. Upstream answers for all others.
const MAX_RESOURCES: usize = 4096;

/// The number of questions for earlier events whose answers are held at a time. A
/// caller may take no more than are left free: 24, if nobody else has any. They are few,
/// because a question takes seconds, in which its request has a seat.
pub(super) const EARLIER_EVENTS_PLACES: Limits = Limits::shared(48);

/// Decides which resources may be cached.
pub trait Selection: Send + Sync {
    fn allows(&self, gvr: &GroupVersionResource) -> bool;

    /// Tells whether the configuration says that all callers who may list the
    /// resource see the same, whichever server answers.
    fn trusts(&self, gvr: &GroupVersionResource) -> bool;
}

/// A group version and the servers that answer for it.
pub type Route = (GroupVersion, Arc<dyn CurrentSource>);

pub struct Cache {
    pub(super) entries: RwLock<HashMap<GroupVersionResource, Arc<Entry>>>,
    upstream: Arc<dyn CurrentSource>,
    /// Upstream's own resources share this question for its version.
    shared_question: Arc<SharedQuestion>,
    /// Group versions that other servers than upstream answer for, by
    /// descending priority.
    routes: RwLock<Vec<Route>>,
    /// The servers behind upstream's group versions.
    servers: watch::Sender<Arc<Servers>>,
    pub(super) withdrawn: Withdrawn,
    pub(super) observer: Arc<dyn Observer>,
    /// Incremented when upstream was replaced by another.
    replaced: watch::Sender<u64>,
    tasks: parking_lot::Mutex<JoinSet<()>>,
    /// Wakes the task that evicts entries and keeps the memory limit.
    pub(super) attention: Arc<Notify>,
    refilled: Arc<Notify>,
    /// Memory for stores and for data that is being read.
    pub(super) memory: Arc<MemoryPool>,
    /// A place for each watch that gets events from before a store's history.
    pub(super) earlier: Shares<Arc<str>>,
    /// The same for watches without selectors. One question serves many of these, so
    /// it does not compete with those that serve one watch each.
    pub(super) earlier_of_all: Shares<Arc<str>>,
    pub(super) earlier_answers: Arc<EarlierAnswers>,
    pub(super) saved: Option<Arc<SavedStores>>,
    /// No more resources are cached, because memory is short.
    pub(super) full: AtomicBool,
}

impl Cache {
    pub fn new(upstream: Arc<dyn CurrentSource>, observer: Arc<dyn Observer>) -> Self {
        let attention = Arc::new(Notify::new());
        let memory = MemoryPool::new(attention.clone(), observer.clone());
        Self {
            entries: RwLock::default(),
            upstream,
            shared_question: Arc::default(),
            routes: RwLock::default(),
            servers: watch::channel(Arc::default()).0,
            withdrawn: Withdrawn::default(),
            observer,
            replaced: watch::channel(0).0,
            tasks: parking_lot::Mutex::default(),
            attention,
            refilled: Arc::default(),
            memory: Arc::new(memory),
            earlier: Shares::new(EARLIER_EVENTS_PLACES),
            earlier_of_all: Shares::new(EARLIER_EVENTS_PLACES),
            earlier_answers: Arc::default(),
            saved: None,
            full: AtomicBool::new(false),
        }
    }

    /// Makes stores outlive the process.
    #[must_use]
    pub fn saved_in(mut self, saved: Option<SavedStores>) -> Self {
        self.saved = saved.map(Arc::new);
        self
    }

    /// Returns the entry of a resource if it can be read now. The first call
    /// for a resource starts its reflector.
    pub fn lookup(
        &self,
        gvr: &GroupVersionResource,
        selection: &dyn Selection,
    ) -> Result<Arc<Entry>, Unavailable> {
        self.check(gvr, selection)?;
        self.entry(gvr)
    }

    /// Starts the reflector of a resource that has a saved store. Upstream
    /// itself served the resource when it was saved. Nobody reads the store
    /// before it is known that this is still so.
    pub(super) fn resume_one(
        &self,
        gvr: &GroupVersionResource,
        selection: &dyn Selection,
    ) -> Result<Arc<Entry>, Unavailable> {
        match self.check(gvr, selection) {
            Ok(()) | Err(Unavailable::Filling) => self.entry(gvr),
            Err(why) => Err(why),
        }
    }

    /// Checks whether the resource may be cached at all.
    fn check(
        &self,
        gvr: &GroupVersionResource,
        selection: &dyn Selection,
    ) -> Result<(), Unavailable> {
        if !selection.allows(gvr) {
            return Err(Unavailable::Excluded);
        }
        match self.check_server(gvr) {
            Err(Unavailable::Aggregated) if !selection.trusts(gvr) => Err(Unavailable::Aggregated),
            Err(Unavailable::Aggregated) if self.withdrawn.contains(gvr) => {
                Err(Unavailable::Withdrawn)
            }
            Err(Unavailable::Aggregated) => Ok(()),
            // A trusted resource is no exception: until the servers are known,
            // a saved store may come from a former server.
            checked => checked,
        }
    }

    /// Checks whether upstream serves a resource itself.
    pub(super) fn check_server(&self, gvr: &GroupVersionResource) -> Result<(), Unavailable> {
        match Arc::ptr_eq(&self.upstream_of(gvr), &self.upstream) {
            true => self.servers.borrow().check(gvr),
            false => Err(Unavailable::Aggregated),
        }
    }

    /// Sets the servers behind upstream's group versions, as read from the
    /// APIServices of the entry `told`. Drops the resources that another server
    /// answers for now, and closes their watchers.
    pub fn served_by(&self, servers: Servers, told: Option<&Entry>, selection: &dyn Selection) {
        let servers = Arc::new(servers);
        let mut before = None;
        self.servers.send_if_modified(|current| {
            // The entry is stopped before upstream is replaced, so a stopped
            // entry may tell the servers of the former upstream.
            let is_current = told.is_none_or(|entry| !entry.lifecycle().is_stopped());
            if is_current {
                before = Some(std::mem::replace(current, servers.clone()));
            }
            is_current
        });
        let Some(before) = before else { return };
        for entry in self.entries() {
            let gvr = &entry.gvr;
            let is_upstreams = Arc::ptr_eq(&self.upstream_of(gvr), &self.upstream);
            let checked = self.check(gvr, selection);
            let is_excluded = matches!(
                checked,
                Err(Unavailable::Aggregated | Unavailable::Withdrawn)
            );
            // Entries that were filled before the servers were known hold
            // upstream's own objects.
            let is_of_former = *before == Servers::Unknown
                && self.check_server(gvr) == Err(Unavailable::Aggregated);
            if is_excluded || is_upstreams && (is_of_former || servers.moved(&before, gvr)) {
                self.stop(gvr, "served by another server now", |_| true);
            }
        }
    }

    fn entry(&self, gvr: &GroupVersionResource) -> Result<Arc<Entry>, Unavailable> {
        let now = Instant::now();
        let known = {
            let entries = self.entries.read();
            // The entry is touched under the lock, so that a task that would
            // stop it sees the use.
            entries
                .get(gvr)
                .inspect(|entry| entry.usage().touch(now))
                .cloned()
        };
        match known {
            Some(entry) if entry.store().is_some() => Ok(entry),
            Some(entry) => match entry.lifecycle().refusal() {
                Some((until, why)) if until > now => Err(why),
                Some(_) => self.start(gvr, now),
                None => Err(entry.lifecycle().until_filled()),
            },
            None => self.start(gvr, now),
        }
    }

    /// Notes a use of the resource, if it is cached.
    pub fn touch(&self, gvr: &GroupVersionResource) {
        if let Some(entry) = self.entries.read().get(gvr) {
            entry.usage().touch(Instant::now());
        }
    }

    /// Returns the store of the resource, if it is cached. Starts no reflector.
    pub fn store(&self, gvr: &GroupVersionResource) -> Option<Arc<Store>> {
        self.entries.read().get(gvr)?.store()
    }

    /// Does the same as [`Cache::lookup`], but waits for a first list that is
    /// under way.
    pub async fn lookup_within(
        &self,
        gvr: &GroupVersionResource,
        selection: &dyn Selection,
        wait: Duration,
    ) -> Result<Arc<Entry>, Unavailable> {
        let by = Instant::now().checked_add(wait);
        let found = self.lookup_located(gvr, selection, wait).await;
        if found.as_ref().err() != Some(&Unavailable::Filling) {
            return found;
        }
        let wait = by.map_or(wait, |by| by.saturating_duration_since(Instant::now()));
        let filling = self.entries.read().get(gvr).cloned();
        let entry = filling.ok_or(Unavailable::Filling)?;
        match entry.store_within(wait).await {
            Some(_) => Ok(entry),
            None => Err(Unavailable::Filling),
        }
    }

    /// Does the same as [`Cache::lookup`], but waits until it is known which
    /// resources upstream serves itself. That is known soon after a start.
    pub async fn lookup_located(
        &self,
        gvr: &GroupVersionResource,
        selection: &dyn Selection,
        wait: Duration,
    ) -> Result<Arc<Entry>, Unavailable> {
        let found = self.lookup(gvr, selection);
        if found.as_ref().err() != Some(&Unavailable::Filling) || !self.is_unknown() {
            return found;
        }
        if self.check(gvr, selection) == Err(Unavailable::Filling) {
            let _ = tokio::time::timeout(wait, self.known()).await;
        }
        self.lookup(gvr, selection)
    }

    fn is_unknown(&self) -> bool {
        **self.servers.borrow() == Servers::Unknown
    }

    /// Waits until it is known what upstream serves itself.
    async fn known(&self) {
        let mut servers = self.servers.subscribe();
        let _ = servers.wait_for(|s| **s != Servers::Unknown).await;
    }

    /// Waits until upstream was replaced, and it is no longer known which
    /// resources the new one serves itself.
    pub async fn unknown(&self) {
        let mut servers = self.servers.subscribe();
        let _ = servers.wait_for(|s| **s == Servers::Unknown).await;
    }

    /// Starts a resource before the first request for it. If the pattern has no
    /// version, waits until upstream tells its preferred version.
    pub async fn preload(&self, pattern: &ResourcePattern, selection: &dyn Selection) {
        let gvr = match pattern {
            ResourcePattern::Exact(gvr) => gvr.clone(),
            ResourcePattern::GroupResource { group, resource } => {
                let version = match self.routed_version(group) {
                    Some(version) => version,
                    None => discovery::preferred_version(&*self.upstream, group).await,
                };
                GroupVersionResource::new(group, &version, resource)
            }
            ResourcePattern::All | ResourcePattern::Group(_) => return,
        };
        if self.check(&gvr, selection) == Err(Unavailable::Filling) {
            self.known().await;
        }
        match self.lookup(&gvr, selection) {
            Err(Unavailable::Aggregated | Unavailable::Withdrawn) => {
                tracing::warn!(
                    resource = %gvr,
                    "cannot be preloaded: not named in cache.aggregated, and served by another \
                     server than the API server"
                );
            }
            Err(Unavailable::Excluded) => {
                tracing::warn!(resource = %gvr, "cannot be preloaded: excluded from the cache");
            }
            Err(Unavailable::Full) => {
                tracing::warn!(resource = %gvr, "cannot be preloaded: too many resources");
            }
            _ => {}
        }
        if let Some(entry) = self.entries.read().get(&gvr) {
            entry.lifecycle().preload(true);
        }
    }

    pub(super) fn ask_again(&self, entry: &Entry, now: Instant) {
        if entry
            .lifecycle()
            .refusal()
            .is_some_and(|(until, _)| until <= now)
        {
            let _filling = self.start(&entry.gvr, now);
        }
    }

    fn start(&self, gvr: &GroupVersionResource, now: Instant) -> Result<Arc<Entry>, Unavailable> {
        let mut entries = self.entries.write();
        if let Some(entry) = entries.get(gvr)
            && entry
                .lifecycle()
                .refusal()
                .is_none_or(|(until, _)| until > now)
        {
            // Another request has started the resource.
            return Err(entry.lifecycle().until_filled());
        }
        if self.full.load(Ordering::Relaxed) {
            return Err(Unavailable::MemoryLimit);
        }
        if entries.len() >= MAX_RESOURCES {
            entries.retain(|_, e| e.lifecycle().refusal().is_none());
            if entries.len() >= MAX_RESOURCES {
                return Err(Unavailable::Full);
            }
        }
        let upstream = self.upstream_of(gvr);
        // The cluster's identity does not cover other servers.
        let savable = self.saved.is_some()
            && Arc::ptr_eq(&upstream, &self.upstream)
            && SavedStores::can_name(gvr);
        // The entry is stopped if another server turns out to serve the
        // resource.
        let shared = self.check_server(gvr) != Err(Unavailable::Aggregated);
        let mut entry = Entry::new(gvr.clone(), upstream.clone(), now)
            .savable(savable)
            .sharing(shared.then(|| self.shared_question.clone()));
        if let Some(before) = entries.get(gvr) {
            entry = entry.after(before);
        }
        let entry = Arc::new(entry);
        let until_filled = entry.lifecycle().until_filled();
        entries.insert(gvr.clone(), entry.clone());
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(run::run(
            entry,
            ReflectorContext {
                upstream,
                observer: self.observer.clone(),
                replaced: self.replaced.subscribe(),
                grown: self.attention.clone(),
                refilled: self.refilled.clone(),
                memory: self.memory.clone(),
                saved: self.saved.clone(),
            },
        ));
        Err(until_filled)
    }

    /// Makes all reflectors list again, from the new upstream. Forgets the
    /// servers, since `api_services` told those of the former upstream.
    pub fn upstream_replaced(&self, api_services: &GroupVersionResource) {
        self.stop(api_services, "upstream replaced", |_| true);
        self.servers.send_replace(Arc::default());
        for entry in self.entries() {
            entry.freshness().unproven();
        }
        self.replaced.send_modify(|n| *n = n.wrapping_add(1));
    }

    /// Notes the forms in which clients list a resource that cannot be read
    /// from the cache yet.
    pub fn demand(&self, gvr: &GroupVersionResource, forms: &[ListForm]) {
        let entry = self.entries.read().get(gvr).cloned();
        if let Some(entry) = entry {
            forms
                .iter()
                .for_each(|form| entry.usage().demand().ask(*form));
        }
    }

    /// Waits for stores that were filled, and returns those filled since the
    /// last call.
    pub async fn refilled(&self) -> Vec<Arc<Entry>> {
        loop {
            let filled = self.entries().into_iter();
            let filled: Vec<_> = filled
                .filter(|entry| entry.usage().take_refilled())
                .collect();
            if !filled.is_empty() {
                return filled;
            }
            self.refilled.notified().await;
        }
    }

    /// Counts a form of a resource that was made before a list asked for it.
    pub fn made_ahead(&self) {
        self.observer.made_ahead();
    }

    /// Tells whether this many more bytes are within the memory limit.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.memory.begin(0).free() >= bytes
    }

    /// Returns every known resource, for metrics and debugging.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        self.entries.read().values().cloned().collect()
    }

    pub(crate) fn observer(&self) -> &dyn Observer {
        &*self.observer
    }

    pub fn upstream(&self) -> Arc<dyn Source> {
        self.upstream.current()
    }

    fn upstream_of(&self, gvr: &GroupVersionResource) -> Arc<dyn CurrentSource> {
        let routes = self.routes.read();
        let is_routed = |(gv, _): &&Route| gv.group == gvr.group && gv.version == gvr.version;
        let found = routes.iter().find(is_routed);
        found.map_or_else(|| self.upstream.clone(), |(_, upstream)| upstream.clone())
    }

    fn routed_version(&self, group: &str) -> Option<String> {
        let routes = self.routes.read();
        let found = routes.iter().find(|(gv, _)| gv.group == group);
        found.map(|(gv, _)| gv.version.clone())
    }

    /// Sets the servers that answer for these group versions. Drops the
    /// resources that came from other servers, and closes their watchers.
    pub fn route(&self, routes: Vec<Route>) {
        *self.routes.write() = routes;
        for entry in self.entries() {
            let owner = self.upstream_of(&entry.gvr);
            let moved = |entry: &Entry| !Arc::ptr_eq(&entry.owner, &owner);
            self.stop(&entry.gvr, "served by another server now", moved);
        }
    }
}
