//! Discovery: what APIs there are, answered from memory.
//!
//! The API server's own document holds its built-in APIs, custom resources and
//! what it aggregates itself. It is asked for again twice a second while
//! somebody wants it, and passed on to the byte. Backends of our configuration
//! put their groups into it, and `apis.runtimeConfig` takes some out; then the
//! document is written anew, in the form and order kube-aggregator would give
//! it.
//!
//! ```text
//! API server ─ remote_document ─▶ merged ─▶ encoded_document ─▶ JSON, YAML, ...
//! backends ─ polled_backend ──────▲   ▲
//! runtimeConfig ──────────────────────┘
//! ```

mod backend_document;
mod derived;
mod document;
mod encoded_document;
mod group_list;
mod merge;
mod merged;
mod metrics;
mod path;
mod polled_backend;
mod priorities;
mod remote_document;
mod resource_list;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use apifront_upstream::Upstream;
use arc_swap::ArcSwap;
use derived::Derived;
use document::Version;
use kubernetes_wire::api::{GroupVersion, GroupVersionResource};
use merged::{Merged, MergedGroups};
use parking_lot::Mutex;
use polled_backend::PolledBackend;
use priorities::{Priorities, Priority};
use remote_document::{Document, MAX_AGE, RemoteDocument, Server, UPSTREAM, Wanted};
use tokio::sync::watch;

use crate::aggregation::{Source, SourceVersion};
use crate::config::{RuntimeConfig, is_built_in_group};
use crate::documents::{Interest, Rhythm};

pub use document::ResourceFacts;
pub use encoded_document::EncodedDocument;
pub use metrics::DiscoveryMetrics;
pub use path::DiscoveryPath;

/// How often the API server is asked.
const RHYTHM: Rhythm = Rhythm {
    // A new custom resource is shown within a second, and nobody waits.
    active: Duration::from_millis(500),
    idle: Duration::from_secs(30),
    active_for: Duration::from_secs(180),
};

/// APIServices change with the groups they are of; this is for changes of a
/// priority alone.
const PRIORITIES_MAX_AGE: Duration = Duration::from_secs(60);

/// Plain documents of versions kept at most: more versions than any cluster
/// has. Others are forwarded.
const MAX_VERSIONS: usize = 10_000;

const JSON: &str = "application/json";
const EVERYTHING: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const WITHOUT_PEERS: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer";

/// The document at a path.
pub enum Found {
    Document(Arc<EncodedDocument>),
    /// It is hidden.
    Missing(Missing),
    /// Upstream answers, or the backend that owns the path.
    Elsewhere,
}

/// How kube-apiserver says that it does not know something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// `404 page not found`: nobody feels responsible.
    Page,
    /// A Status: the server of the group does not know it.
    Status,
}

/// Which document of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peers {
    Included,
    Excluded,
}

/// One of the two documents of everything, from fetching to clients.
struct Everything {
    documents: [Arc<RemoteDocument>; 2],
    merged: [DerivedMerged; 2],
}

/// The merged document, made again when one of these changes: the numbers of the
/// upstream's document and of its APIServices, and the generation.
type DerivedMerged = Derived<(u64, u64, u64), Merged>;

struct VersionDocument {
    document: Arc<RemoteDocument>,
    made: Derived<(u64, u64), Option<Arc<EncodedDocument>>>,
}

pub struct Discovery {
    server: Arc<Server>,
    api: Everything,
    apis: Everything,
    plain_api: Arc<RemoteDocument>,
    plain_api_made: Derived<u64, EncodedDocument>,
    plain_apis: Arc<RemoteDocument>,
    plain_apis_made: Derived<(u64, u64, u64, u64), MergedGroups>,
    api_services: Arc<RemoteDocument>,
    priorities: Derived<(u64, u64), Priorities>,
    versions: Mutex<HashMap<GroupVersion, Arc<VersionDocument>>>,
    backends: Mutex<Vec<PolledBackend>>,
    /// The upstream's versions that our configuration gives another place.
    local: Mutex<Vec<SourceVersion>>,
    config: watch::Sender<Arc<RuntimeConfig>>,
    /// Raised by every change of what backends serve and of what is hidden.
    generation: Arc<AtomicU64>,
    interest: Interest,
}

impl Everything {
    fn new(path: &str) -> Self {
        let document = |accept| {
            let wanted = Wanted {
                accept,
                content_type: EVERYTHING,
                own: true,
            };
            RemoteDocument::new(path, wanted)
        };
        Self {
            documents: [document(EVERYTHING), document(WITHOUT_PEERS)],
            merged: Default::default(),
        }
    }

    fn of(&self, peers: Peers) -> (&Arc<RemoteDocument>, &DerivedMerged) {
        let [with, without] = &self.documents;
        let [merged_with, merged_without] = &self.merged;
        match peers {
            Peers::Included => (with, merged_with),
            Peers::Excluded => (without, merged_without),
        }
    }
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
                upstream,
                metrics,
            }),
            api: Everything::new("/api"),
            apis: Everything::new("/apis"),
            plain_api: plain("/api"),
            plain_api_made: Derived::default(),
            plain_apis: plain("/apis"),
            plain_apis_made: Derived::default(),
            api_services: plain("/apis/apiregistration.k8s.io/v1/apiservices"),
            priorities: Derived::default(),
            versions: Mutex::default(),
            backends: Mutex::default(),
            local: Mutex::default(),
            config: watch::Sender::default(),
            generation: Arc::default(),
            interest: Interest::new(RHYTHM),
        }
    }

    /// Backends whose groups are shown, from now on. One that was there before
    /// keeps what is known of it.
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
            backends.push(PolledBackend::start(source, known, metrics, move || {
                generation.fetch_add(1, Ordering::Relaxed);
            }));
        }
        for gone in before {
            if !backends.iter().any(|b| b.source.name == gone.source.name) {
                self.server.metrics.forget(&gone.source.name);
            }
        }
        drop(backends);
        self.changed();
    }

    /// Versions that the upstream serves, at the place they have from now on.
    pub fn set_local(&self, versions: Vec<SourceVersion>) {
        let mut local = self.local.lock();
        if *local != versions {
            *local = versions;
            drop(local);
            self.changed();
        }
    }

    /// Whether the upstream's order matters: its document alone is in order.
    fn has_ours(&self) -> bool {
        !self.backends.lock().is_empty() || !self.local.lock().is_empty()
    }

    /// Sets which APIs are hidden from now on.
    pub fn set_runtime_config(&self, config: RuntimeConfig) {
        if **self.config.borrow() != config {
            self.config.send_replace(Arc::new(config));
            self.changed();
        }
    }

    /// Ends when the resource comes to be hidden.
    pub fn until_hidden(
        &self,
        resource: GroupVersionResource,
    ) -> impl Future<Output = ()> + Send + use<> {
        let mut config = self.config.subscribe();
        async move {
            let hidden = config.wait_for(|config| !config.is_resource_enabled(&resource));
            if hidden.await.is_err() {
                // The process ends: others end what waits here.
                std::future::pending().await
            }
        }
    }

    fn hides(&self) -> Arc<RuntimeConfig> {
        self.config.borrow().clone()
    }

    /// The API server is another one: nothing that is known of it holds.
    pub fn upstream_replaced(&self) {
        for document in self.all_documents() {
            document.forget();
        }
        self.versions.lock().clear();
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
        let mut known = None;
        loop {
            let [api, _] = &self.api.documents;
            let [apis, _] = &self.apis.documents;
            api.refresh(&self.server);
            apis.refresh(&self.server);
            if self.has_ours() {
                let number = apis.last().map(|d| d.number);
                let age = self.api_services.confirmed().map(|then| then.elapsed());
                if number != known || age.is_none_or(|age| age > PRIORITIES_MAX_AGE) {
                    known = number;
                    self.api_services.refresh(&self.server);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(self.interest.period()) => {}
                () = self.interest.woken() => {}
            }
        }
    }

    /// Finds the document at a path. `everything` asks for the one of all groups.
    pub async fn find(&self, path: &DiscoveryPath, everything: Option<Peers>) -> Found {
        self.interest.note();
        let found = match (path, everything) {
            (DiscoveryPath::Api, Some(peers)) => {
                let merged = self.merged(&self.api, peers).await;
                merged.map(|m| m.encoded.clone())
            }
            (DiscoveryPath::Apis, Some(peers)) => {
                let merged = self.merged(&self.apis, peers).await;
                merged.map(|m| m.encoded.clone())
            }
            (DiscoveryPath::Api, None) => {
                let document = self.plain_api.get(&self.server, MAX_AGE).await;
                document.map(|d| {
                    let make = || EncodedDocument::new(d.body.clone(), None);
                    self.plain_api_made.get(d.number, make)
                })
            }
            (DiscoveryPath::Apis | DiscoveryPath::ApisSlash, _) => {
                self.groups().await.map(|g| g.encoded.clone())
            }
            (DiscoveryPath::Group(group), _) => return self.find_group(group).await,
            (DiscoveryPath::Version(version), _) => return self.find_version(version).await,
        };
        found.map_or(Found::Elsewhere, Found::Document)
    }

    async fn find_group(&self, group: &str) -> Found {
        let Some(groups) = self.groups().await else {
            return Found::Elsewhere;
        };
        if let Some(encoded) = groups.group(group) {
            return Found::Document(encoded);
        }
        let hidden = self.last(&self.apis).is_some_and(|merged| {
            !merged.has_group(group) && merged.hidden.iter().any(|gv| gv.group == group)
        });
        if hidden {
            Found::Missing(Missing::Page)
        } else {
            Found::Elsewhere
        }
    }

    async fn find_version(&self, version: &GroupVersion) -> Found {
        let config = self.hides();
        let everything = self.everything(&version.group);
        let Some(merged) = self.merged(everything, Peers::Included).await else {
            return Found::Elsewhere;
        };
        if merged.hidden.contains(version) {
            return Found::Missing(self.missing(version));
        }
        if !merged.has(version) {
            return Found::Elsewhere;
        }
        let server = match self.owner(version) {
            None => self.server.clone(),
            // A backend's own answer is passed on, if all of it may be shown.
            Some(_) if !config.hides_some_of(version) => return Found::Elsewhere,
            Some(backend) => backend,
        };
        let Some(of_version) = self.version_document(version) else {
            return Found::Elsewhere;
        };
        let Some(document) = of_version.document.get(&server, MAX_AGE).await else {
            return Found::Elsewhere;
        };
        let key = (document.number, self.generation());
        let made = of_version
            .made
            .get(key, || plain_version(&document, version, &config));
        match &*made {
            Some(encoded) => Found::Document(encoded.clone()),
            None => Found::Elsewhere,
        }
    }

    /// The answer for a version, if it or each of its resources is hidden.
    pub fn hidden(&self, version: &GroupVersion) -> Option<Missing> {
        let config = self.hides();
        if config.is_default() {
            return None;
        }
        let shown = self.last(self.everything(&version.group));
        let hidden = !config.is_enabled(version)
            || shown.is_some_and(|merged| merged.hidden.contains(version));
        hidden.then(|| self.missing(version))
    }

    /// The answer for a hidden version, or for a resource of it.
    pub fn missing(&self, version: &GroupVersion) -> Missing {
        // The path /api belongs to the API server, whatever is below it.
        if version.group.is_empty() {
            return Missing::Status;
        }
        let shown = self.last(&self.apis);
        let shown = shown.as_ref();
        let serves = if is_built_in_group(&version.group) {
            shown.is_none_or(|merged| merged.has_group(&version.group))
        } else {
            self.owner(version).is_some() && shown.is_none_or(|merged| merged.has(version))
        };
        if serves {
            Missing::Status
        } else {
            Missing::Page
        }
    }

    /// The facts about a resource that is shown; `None` before upstream's first
    /// answer.
    pub fn resource(&self, resource: &GroupVersionResource) -> Option<ResourceFacts> {
        self.last(self.everything(&resource.group))?.facts(resource)
    }

    /// Brings the gauges up to date.
    pub fn observe(&self) {
        let [apis, _] = &self.apis.documents;
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

    /// The backend that answers for a version.
    fn owner(&self, version: &GroupVersion) -> Option<Arc<Server>> {
        let backends = self.backends.lock();
        let owner = backends.iter().find(|b| {
            let mut registered = b.source.versions.iter();
            registered.any(|v| v.group_version == *version)
        })?;
        Some(Arc::new(Server {
            name: owner.source.name.clone(),
            upstream: owner.source.upstream.clone(),
            metrics: self.server.metrics.clone(),
        }))
    }

    /// A document no older than a second, or the last one.
    async fn merged(&self, everything: &Everything, peers: Peers) -> Option<Arc<Merged>> {
        let (document, _) = everything.of(peers);
        let document = document.get(&self.server, MAX_AGE).await?;
        if self.api_services.last().is_none() && self.has_ours() {
            self.api_services
                .get(&self.server, PRIORITIES_MAX_AGE)
                .await;
        }
        Some(self.merge(everything, peers, &document))
    }

    /// The last document, whatever its age.
    fn last(&self, everything: &Everything) -> Option<Arc<Merged>> {
        let (document, _) = everything.of(Peers::Included);
        let document = document.last()?;
        Some(self.merge(everything, Peers::Included, &document))
    }

    fn merge(&self, everything: &Everything, peers: Peers, document: &Document) -> Arc<Merged> {
        let (_, merged) = everything.of(peers);
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
            let local = self.local.lock().clone();
            ours.extend(merged::of_upstream(document, &local));
            let priorities = self.priorities(api_services.as_deref());
            Merged::new(document, ours, &priorities, &self.hides())
        })
    }

    async fn groups(&self) -> Option<Arc<MergedGroups>> {
        let plain = self.plain_apis.get(&self.server, MAX_AGE).await?;
        let registered: Vec<SourceVersion> = {
            let backends = self.backends.lock();
            let all = backends.iter().flat_map(|b| b.source.versions.clone());
            all.chain(self.local.lock().iter().cloned()).collect()
        };
        // The document of everything tells which versions are hidden because all
        // their resources are.
        let config_hides = !self.hides().is_default();
        let merged = if registered.is_empty() && !config_hides {
            None
        } else {
            Some(self.merged(&self.apis, Peers::Included).await?)
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

    /// The upstream's, and those of our configuration.
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

    /// `None` if there are too many.
    fn version_document(&self, version: &GroupVersion) -> Option<Arc<VersionDocument>> {
        let mut versions = self.versions.lock();
        if let Some(known) = versions.get(version) {
            return Some(known.clone());
        }
        if versions.len() >= MAX_VERSIONS {
            let shown = [&self.api, &self.apis].map(|everything| self.last(everything));
            versions.retain(|gv, _| shown.iter().flatten().any(|merged| merged.has(gv)));
            if versions.len() >= MAX_VERSIONS {
                return None;
            }
        }
        let wanted = Wanted {
            accept: JSON,
            content_type: JSON,
            own: false,
        };
        let document = Arc::new(VersionDocument {
            document: RemoteDocument::new(&version.path(), wanted),
            made: Derived::default(),
        });
        versions.insert(version.clone(), document.clone());
        Some(document)
    }
}

/// `None` if resources of it are hidden, and it cannot be read.
fn plain_version(
    document: &Document,
    version: &GroupVersion,
    config: &RuntimeConfig,
) -> Option<Arc<EncodedDocument>> {
    let hidden = |resource: &str| {
        let gvr = GroupVersionResource::new(&version.group, &version.version, resource);
        !config.is_resource_enabled(&gvr)
    };
    let json = if config.is_default() {
        document.body.clone()
    } else {
        resource_list::without(&document.body, hidden)?
    };
    Some(Arc::new(EncodedDocument::new(json, None)))
}
