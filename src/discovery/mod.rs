//! Discovery: the list of the cluster's APIs, answered from memory.
//!
//! The API server's own document holds its built-in APIs, custom resources and the
//! APIs that it aggregates itself. A caller who asks for it waits, together with all
//! who ask at that moment, until upstream has confirmed that it did not change
//! (If-None-Match). Then it is passed on byte for byte. Backends of apifront's
//! configuration add their groups, and `apis.runtimeConfig` removes groups. A
//! document that this changes is written again, in the form and order of
//! kube-aggregator.
//!
//! ```text
//! API server ─ remote_document ─▶ merged_document ─▶ encoded_document ─▶ JSON, YAML, ...
//! backends ─ polled_backend ──────▲   ▲
//! runtimeConfig ──────────────────────┘
//! ```

mod backend_document;
mod document;
mod encoded_document;
mod everything;
mod group_list;
mod group_order;
mod lookup;
mod memo;
mod merged_document;
mod metrics;
mod path;
mod polled_backend;
mod priorities;
mod remote_document;
mod resource_list;
#[cfg(test)]
mod tests;
mod version_documents;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use apifront_upstream::Upstream;
use arc_swap::ArcSwap;
use document::Version;
use everything::Everything;
use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use kubernetes_wire::negotiation::Aggregated;
use memo::Memo;
use merged_document::{Merged, MergedGroups};
use parking_lot::Mutex;
use polled_backend::PolledBackend;
use priorities::{Priorities, Priority};
use remote_document::{Document, MAX_AGE, RemoteDocument, Server, UPSTREAM, Wanted};
use tokio::sync::watch;
use version_documents::VersionDocuments;

use crate::aggregation::{Source, SourceVersion};
use crate::documents::{DocumentServer, Interest, Rhythm};
use crate::runtime_config::RuntimeConfig;

pub use document::ResourceFacts;
pub use encoded_document::EncodedDocument;
pub use lookup::{Found, Missing};
pub use metrics::DiscoveryMetrics;
pub use path::DiscoveryPath;

/// The age at which APIServices are fetched again. They change together with their
/// groups, so this matters only when nothing but a priority changes.
const PRIORITIES_MAX_AGE: Duration = Duration::from_secs(60);

const JSON: &str = "application/json";

pub struct Discovery {
    server: Arc<Server>,
    api: Everything,
    apis: Everything,
    plain_api: Arc<RemoteDocument>,
    plain_api_made: Memo<u64, EncodedDocument>,
    plain_apis: Arc<RemoteDocument>,
    plain_apis_made: Memo<(u64, u64, u64, u64), MergedGroups>,
    api_services: Arc<RemoteDocument>,
    priorities: Memo<(u64, u64), Priorities>,
    /// The number of the newest document for which APIServices were requested.
    ordered: AtomicU64,
    versions: VersionDocuments,
    backends: Mutex<Vec<PolledBackend>>,
    /// The versions that upstream serves and apifront's configuration places
    /// elsewhere in the order.
    local: Mutex<Vec<SourceVersion>>,
    config: watch::Sender<Arc<RuntimeConfig>>,
    /// Counts changes of backends' documents and of hidden APIs.
    generation: Arc<AtomicU64>,
    interest: Interest,
    /// Whether the log tells which version of upstream's is hidden by this process' own.
    told_hidden: AtomicBool,
}

impl Discovery {
    pub fn new(upstream: Arc<ArcSwap<Upstream>>, metrics: DiscoveryMetrics) -> Self {
        let plain = |path| {
            let wanted = Wanted {
                accept: JSON,
                content_type: JSON,
                own: true,
            };
            RemoteDocument::new(path, wanted)
        };
        Self {
            server: Arc::new(Server {
                name: UPSTREAM.to_owned(),
                documents: DocumentServer::Remote(upstream),
                metrics,
            }),
            api: Everything::new("/api"),
            apis: Everything::new("/apis"),
            plain_api: plain("/api"),
            plain_api_made: Memo::default(),
            plain_apis: plain("/apis"),
            plain_apis_made: Memo::default(),
            api_services: plain("/apis/apiregistration.k8s.io/v1/apiservices"),
            priorities: Memo::default(),
            ordered: AtomicU64::default(),
            versions: VersionDocuments::default(),
            backends: Mutex::default(),
            local: Mutex::default(),
            config: watch::Sender::default(),
            generation: Arc::default(),
            interest: Interest::new(Rhythm::OF_UPSTREAM),
            told_hidden: AtomicBool::default(),
        }
    }

    /// Sets the backends whose groups are shown. A backend that was set before keeps
    /// its documents.
    pub fn set_sources(&self, sources: Vec<Source>) {
        let mut backends = self.backends.lock();
        let mut before = std::mem::take(&mut *backends);
        for source in sources {
            if let Some(at) = before.iter().position(|b| b.is_same(&source)) {
                backends.push(before.swap_remove(at));
                continue;
            }
            let generation = self.generation.clone();
            let known = before.iter().find(|b| b.source.name == source.name);
            let metrics = self.server.metrics.clone();
            backends.push(PolledBackend::new(source, known, metrics, move || {
                generation.fetch_add(1, Ordering::Relaxed);
            }));
        }
        for gone in before {
            if !backends.iter().any(|b| b.source.name == gone.source.name) {
                self.server.metrics.forget(&gone.source.name);
            }
        }
        drop(backends);
        self.told_hidden.store(false, Ordering::Relaxed);
        self.changed();
    }

    /// Sets the versions that upstream serves and the configuration places
    /// elsewhere.
    pub fn set_local(&self, versions: Vec<SourceVersion>) {
        let mut local = self.local.lock();
        if *local != versions {
            *local = versions;
            drop(local);
            self.changed();
        }
    }

    /// Tells whether versions of the configuration are merged into upstream's
    /// document. Otherwise that document is in order already.
    fn has_ours(&self) -> bool {
        !self.backends.lock().is_empty() || !self.local.lock().is_empty()
    }

    pub fn set_runtime_config(&self, config: RuntimeConfig) {
        if **self.config.borrow() != config {
            self.config.send_replace(Arc::new(config));
            self.changed();
        }
    }

    /// Returns a future that ends when the resource is hidden.
    pub fn until_hidden(
        &self,
        resource: GroupVersionResource,
    ) -> impl Future<Output = ()> + Send + use<> {
        let mut config = self.config.subscribe();
        async move {
            let hidden = config.wait_for(|config| !config.is_resource_enabled(&resource));
            if hidden.await.is_err() {
                // The process ends, and with it the tasks that wait here.
                std::future::pending().await
            }
        }
    }

    fn hides(&self) -> Arc<RuntimeConfig> {
        self.config.borrow().clone()
    }

    /// Forgets the API server's documents, because another one replaced it.
    pub fn upstream_replaced(&self) {
        for document in self.all_documents() {
            document.forget();
        }
        self.versions.clear();
        self.changed();
    }

    fn changed(&self) {
        self.generation.fetch_add(1, Ordering::Relaxed);
        self.interest.wake();
    }

    fn all_documents(&self) -> impl Iterator<Item = &Arc<RemoteDocument>> {
        let everything = self.api.documents.iter().chain(&self.apis.documents);
        everything.chain([&self.plain_api, &self.plain_apis, &self.api_services])
    }

    /// Keeps the documents current, for ever.
    pub async fn run(self: Arc<Self>) {
        loop {
            let [api, ..] = &self.api.documents;
            let [apis, ..] = &self.apis.documents;
            api.refresh(&self.server);
            apis.refresh(&self.server);
            if self.has_ours() {
                self.api_services.refresh(&self.server);
            }
            tokio::select! {
                () = tokio::time::sleep(self.interest.period()) => {}
                () = self.interest.woken() => {}
            }
        }
    }

    /// Returns the facts about a shown resource. `None` before upstream's first
    /// answer.
    pub fn resource(&self, resource: &GroupVersionResource) -> Option<ResourceFacts> {
        self.last(self.everything(&resource.group))?.facts(resource)
    }

    /// Tells whether any server has the resource. `None` if upstream does not answer.
    pub async fn has(&self, resource: &GroupVersionResource) -> Option<bool> {
        if self.resource(resource).is_some() {
            return Some(true);
        }
        let everything = self.everything(&resource.group);
        let merged = self.merged(everything, Aggregated::V2).await?;
        Some(merged.facts(resource).is_some())
    }

    /// Returns the resource in the first version of its group that has it. `None` if
    /// no version has it or upstream does not answer.
    pub async fn preferred(&self, group: &str, resource: &str) -> Option<GroupVersionResource> {
        let everything = self.everything(group);
        let known = self.last(everything);
        if let Some(known) = known.and_then(|known| known.preferred(group, resource)) {
            return Some(known);
        }
        let merged = self.merged(everything, Aggregated::V2).await?;
        merged.preferred(group, resource)
    }

    pub fn observe(&self) {
        let [apis, ..] = &self.apis.documents;
        if let Some(confirmed) = apis.confirmed() {
            self.server.metrics.age(UPSTREAM, confirmed.elapsed());
        }
        for backend in self.backends.lock().iter() {
            if let Some(age) = backend.age() {
                self.server.metrics.age(&backend.source.name, age);
            }
        }
    }

    fn everything(&self, group: &str) -> &Everything {
        if group.is_empty() {
            &self.api
        } else {
            &self.apis
        }
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Tells whether upstream also answers for this path. A backend's version counts as
    /// upstream's, because its errors are not worded here either.
    pub fn is_upstreams(&self, path: &DiscoveryPath) -> bool {
        let backends = self.backends.lock();
        match path {
            DiscoveryPath::Group(group) => {
                let mut registered = backends.iter().flat_map(|b| &b.source.versions);
                !registered.any(|v| v.group_version.group == *group)
            }
            DiscoveryPath::Version(version) => {
                let own = backends.iter().filter(|b| b.is_own());
                let mut registered = own.flat_map(|b| &b.source.versions);
                !registered.any(|v| v.group_version == *version)
            }
            DiscoveryPath::Api | DiscoveryPath::Apis | DiscoveryPath::ApisSlash => true,
        }
    }

    pub fn changes_documents(&self) -> bool {
        !self.hides().is_default() || !self.backends.lock().is_empty()
    }

    fn owner(&self, version: &GroupVersion) -> Option<Arc<Server>> {
        let backends = self.backends.lock();
        let owner = backends.iter().find(|b| {
            let mut registered = b.source.versions.iter();
            registered.any(|v| v.group_version == *version)
        })?;
        Some(Arc::new(Server {
            name: owner.source.name.clone(),
            documents: owner.source.server.clone(),
            metrics: self.server.metrics.clone(),
        }))
    }

    /// Returns a document that upstream confirmed after this call began, else the
    /// last one.
    async fn merged(&self, everything: &Everything, aggregated: Aggregated) -> Option<Arc<Merged>> {
        let (document, _) = everything.documents_for(aggregated);
        let document = document.get(&self.server, MAX_AGE).await?;
        if self.has_ours() {
            let is_new = document.number > self.ordered.load(Ordering::Relaxed);
            let age = if is_new { MAX_AGE } else { PRIORITIES_MAX_AGE };
            self.api_services.get(&self.server, age).await;
            self.ordered.fetch_max(document.number, Ordering::Relaxed);
        }
        Some(self.merge(everything, aggregated, &document))
    }

    /// Returns the last document, whatever its age.
    fn last(&self, everything: &Everything) -> Option<Arc<Merged>> {
        let (document, _) = everything.documents_for(Aggregated::V2);
        let document = document.last()?;
        Some(self.merge(everything, Aggregated::V2, &document))
    }

    fn merge(
        &self,
        everything: &Everything,
        aggregated: Aggregated,
        document: &Document,
    ) -> Arc<Merged> {
        let (_, merged) = everything.documents_for(aggregated);
        let api_services = self.api_services.last();
        let number = api_services.as_ref().map_or(0, |d| d.number);
        merged.get((document.number, self.generation(), number), || {
            self.server.metrics.aggregated();
            let core = std::ptr::eq(everything, &self.api);
            let mut ours: Vec<(GroupVersion, Version)> = self
                .backends
                .lock()
                .iter()
                .flat_map(PolledBackend::entries)
                .map(|(registered, version)| (registered.group_version, version))
                .filter(|(gv, _)| gv.group.is_empty() == core)
                .collect();
            self.tell_hidden(document);
            let local = self.local.lock().clone();
            ours.extend(merged_document::of_upstream(document, &local));
            let priorities = self.priorities(api_services.as_deref());
            let config = self.hides();
            Merged::new(document, aggregated, ours, &priorities, &config)
        })
    }

    /// Warns, once after each change of the configuration, if this process answers for
    /// a version that upstream serves, too.
    fn tell_hidden(&self, upstream: &Document) {
        let own: Vec<SourceVersion> = {
            let backends = self.backends.lock();
            let own = backends.iter().filter(|b| b.is_own());
            own.flat_map(|b| b.source.versions.clone()).collect()
        };
        for (version, _) in merged_document::of_upstream(upstream, &own) {
            if !self.told_hidden.swap(true, Ordering::Relaxed) {
                tracing::warn!(%version, "upstream serves it, too, but apifront answers for it");
            }
        }
    }

    async fn groups(&self) -> Option<Arc<MergedGroups>> {
        let plain = self.plain_apis.get(&self.server, MAX_AGE).await?;
        let registered: Vec<SourceVersion> = {
            let backends = self.backends.lock();
            let all = backends.iter().flat_map(|b| b.source.versions.clone());
            all.chain(self.local.lock().iter().cloned()).collect()
        };
        // The document of all groups tells which versions are hidden because all
        // their resources are.
        let config_hides = !self.hides().is_default();
        let merged = if registered.is_empty() && !config_hides {
            None
        } else {
            Some(self.merged(&self.apis, Aggregated::V2).await?)
        };
        let api_services = self.api_services.last();
        let key = (
            plain.number,
            self.generation(),
            api_services.as_ref().map_or(0, |d| d.number),
            merged.as_ref().map_or(0, |m| m.number),
        );
        Some(self.plain_apis_made.get(key, || {
            let mut hidden = merged
                .as_ref()
                .map_or_else(HashSet::new, |m| m.hidden.clone());
            let local = self.local.lock().clone();
            let is_served = |v: &SourceVersion| {
                let shown = merged.as_ref().is_some_and(|m| m.has(&v.group_version));
                shown || !local.contains(v)
            };
            let ours = registered.into_iter().filter(is_served);
            let ours: Vec<GroupVersion> = ours.map(|v| v.group_version).collect();
            let config = self.hides();
            hidden.extend(ours.iter().filter(|gv| !config.is_enabled(gv)).cloned());
            let priorities = self.priorities(api_services.as_deref());
            MergedGroups::new(&plain, &ours, &priorities, &hidden)
        }))
    }

    /// Returns the priorities of the upstream's APIServices and of the
    /// configuration.
    fn priorities(&self, api_services: Option<&Document>) -> Arc<Priorities> {
        let key = (api_services.map_or(0, |d| d.number), self.generation());
        self.priorities.get(key, || {
            let mut priorities =
                api_services.map_or_else(Priorities::default, |d| Priorities::parse(&d.body));
            let backends = self.backends.lock();
            let local = self.local.lock();
            let remote = backends.iter().flat_map(|b| &b.source.versions);
            for registered in remote.chain(local.iter()) {
                let priority = Priority {
                    group: registered.group_priority_minimum,
                    version: registered.version_priority,
                };
                priorities.set(registered.group_version.clone(), priority);
            }
            priorities
        })
    }
}
