//! One cached resource: its store, and what is known about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_source::{CurrentSource, Source};
use arc_swap::Guard;
use kubernetes_wire::api::GroupVersionResource;

use super::freshness::Freshness;
use super::freshness_probe;
use super::lifecycle::Lifecycle;
use super::provenance::Provenance;
use super::store_slot::{OwnedStore, StoreSlot};
use super::unavailable::Unavailable;
use super::usage::Usage;
use super::version_question::SharedQuestion;
use crate::store::{Store, StoreWriter};

pub struct Entry {
    pub gvr: GroupVersionResource,
    /// The servers that the resource is read from.
    pub(super) owner: Arc<dyn CurrentSource>,
    slot: StoreSlot,
    lifecycle: Lifecycle,
    freshness: Freshness,
    provenance: Provenance,
    usage: Usage,
}

impl Entry {
    pub(super) fn new(
        gvr: GroupVersionResource,
        owner: Arc<dyn CurrentSource>,
        now: Instant,
    ) -> Self {
        Self {
            owner,
            slot: StoreSlot::default(),
            lifecycle: Lifecycle::new(now),
            freshness: Freshness::default(),
            provenance: Provenance::new(gvr.clone()),
            usage: Usage::new(now),
            gvr,
        }
    }

    pub(super) fn savable(mut self, savable: bool) -> Self {
        self.provenance.set_savable(savable);
        self
    }

    pub(super) fn sharing(mut self, question: Option<Arc<SharedQuestion>>) -> Self {
        self.freshness.share(question);
        self
    }

    /// Takes over the demand and failures of the former entry of the same
    /// resource.
    pub(super) fn after(mut self, before: &Self) -> Self {
        self.usage.succeed(&before.usage);
        self.lifecycle.succeed(&before.lifecycle);
        self
    }

    /// Makes an entry that tests fill. Its upstream answers nothing.
    #[cfg(test)]
    pub(super) fn with_silent_upstream(gvr: GroupVersionResource, now: Instant) -> Self {
        Self::new(gvr, super::tests::nobody(), now)
    }

    pub fn lifecycle(&self) -> &Lifecycle {
        &self.lifecycle
    }

    pub fn freshness(&self) -> &Freshness {
        &self.freshness
    }

    pub(super) fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    pub fn usage(&self) -> &Usage {
        &self.usage
    }

    /// Returns the upstream that the resource is read from.
    pub fn upstream(&self) -> Arc<dyn Source> {
        self.owner.current()
    }

    /// Returns the store, once it is filled.
    pub fn store(&self) -> Option<Arc<Store>> {
        self.slot.store()
    }

    /// Returns the store with its writer, once it is filled.
    pub(super) fn owned(&self) -> Guard<Option<Arc<OwnedStore>>> {
        self.slot.owned()
    }

    /// Returns the store. Waits for the first list for at most `wait`.
    pub(crate) async fn store_within(&self, wait: Duration) -> Option<Arc<Store>> {
        self.slot.store_within(wait).await
    }

    /// Waits until the form of the store's bookmarks is known, for at most
    /// `wait`. A server without initial events shows it some seconds after the
    /// list. A server that was found to send no bookmarks is not waited for.
    pub async fn bookmark_within(&self, store: &Store, wait: Duration) {
        self.slot.bookmark_within(store, wait).await;
    }

    pub(super) fn found_bookmarkless(&self) {
        self.slot.found_bookmarkless();
    }

    /// Tells whether a request or a watch holds the store now.
    pub(super) fn is_read(&self) -> bool {
        self.slot.is_read()
    }

    /// Puts a store in place. Closes the watchers of the former store.
    pub(super) fn fill(&self, writer: StoreWriter, store: Arc<Store>) {
        self.slot.fill(writer, store);
    }

    /// Notes that the main watch has begun.
    pub(super) fn connected(&self) {
        self.freshness.begun();
        self.lifecycle.connected();
    }

    /// Notes that the main watch has brought everything up to this version,
    /// with an event or a bookmark.
    pub(super) fn heard(&self, version: u64, is_event: bool, now: Instant) {
        self.freshness.heard(&self.gvr, version, is_event, now);
    }

    /// Drops the store for the reason `why`. The resource is tried again later.
    pub(super) fn refuse(&self, why: Unavailable, now: Instant, lasts: Duration) {
        self.lifecycle.refuse(why, now, lasts);
        self.slot.clear();
    }

    /// Ends the reflector, which then closes the entry. Requests must no longer
    /// find the entry when this is called.
    pub(super) fn stop(&self) {
        self.lifecycle.close();
        self.freshness.interrupted();
        self.lifecycle.end();
    }

    /// Drops the store and closes its watchers, for good.
    pub(super) fn close(&self) {
        self.lifecycle.close();
        self.slot.clear();
    }

    /// Tells whether the resource's definition is still the one that the store
    /// was listed with. Asks upstream, unless the definition cannot change.
    /// Notices every change that was complete before this call. The caller must
    /// read the store's objects and columns after it.
    pub async fn is_listed_by_current_definition(&self) -> bool {
        let owner = &*self.owner;
        self.provenance.is_listed_by_current_definition(owner).await
    }

    /// Tells whether the resource has a definition that can change, or may have
    /// one. The definition says how objects are shown.
    pub(crate) fn has_definition(&self) -> bool {
        self.provenance.has_definition()
    }

    /// Returns a version that upstream had after this call began, from an
    /// answer about this resource. `None` if upstream does not answer.
    pub async fn upstream_version(&self) -> Option<u64> {
        self.freshness.ask_alone(|| self.current_version()).await
    }

    /// Does the same as [`Entry::upstream_version`], but the answer may be
    /// about another resource of the same server.
    pub async fn shared_version(&self) -> Option<u64> {
        let (others, alone) = (|| self.version_of_others(), || self.own_version());
        self.freshness.ask_others(others, alone).await
    }

    /// Asks upstream for its current version of the resource. It is no older
    /// than etcd's version at the time of this call. `None` if upstream does
    /// not answer.
    async fn current_version(&self) -> Option<u64> {
        let namespaced = self.store()?.resource.namespaced;
        freshness_probe::listed_version(&*self.upstream(), &self.gvr, namespaced).await
    }

    async fn own_version(&self) -> Option<u64> {
        let asked = Instant::now();
        let version = self.upstream_version().await?;
        let store = self.store()?;
        // A question about a cluster-scoped resource costs more, the more
        // objects there are. For a custom resource, the author of the
        // definition decides the cost.
        if store.resource.namespaced
            && !self.has_definition()
            && let Some(shared) = self.freshness.shared_question()
        {
            shared.propose(&self.gvr, asked.elapsed());
        }
        Some(version)
    }

    async fn version_of_others(&self) -> Option<u64> {
        let shared = self.freshness.shared_question()?;
        let reached = self.store()?.progress().resource_version;
        let upstream = self.upstream();
        let ask = async |about: Arc<GroupVersionResource>| {
            freshness_probe::listed_version(&*upstream, &about, true).await
        };
        let version = shared.ask(ask).await?;
        if version < reached {
            // This resource is not in the same etcd as the other one.
            self.freshness.must_ask_alone();
            return None;
        }
        Some(version)
    }
}
