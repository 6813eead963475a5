//! The discovery documents of one backend, which a task requests periodically. If
//! the backend fails, the known documents stay. This process' own documents are known
//! from the start, so no task requests them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use http::StatusCode;
use http::header::{CONTENT_TYPE, ETAG};
use kubernetes_wire::api::{GroupVersion, go_json};
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::backend_document::{GroupDiscoveryList, ResourceList, Unreadable, VersionDiscovery};
use super::document::Version;
use super::metrics::DiscoveryMetrics;
use super::remote_document::{DOCUMENT_TIMEOUT, text};
use crate::aggregation::{Source, SourceVersion};
use crate::documents::{DocumentServer, FetchError, Fetched, Limits, OwnDocuments, Refreshed};

/// The time between two requests. kube-aggregator waits a minute, but an answer of
/// 304 costs a backend almost nothing.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// The first and the longest pause after a failure. Each failure doubles the pause.
/// The values are kube-aggregator's.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));

/// The limits of a backend's document. A backend serves only some groups.
pub(super) const LIMITS: Limits = Limits {
    most: 8 << 20,
    within: DOCUMENT_TIMEOUT,
};

/// kube-aggregator accepts no older version since 1.37. A backend that has only an
/// older version is asked for the resources of each group version.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A server whose documents are known. The task ends when this is dropped.
pub(super) struct PolledBackend {
    pub(super) source: Source,
    known: Arc<Known>,
    /// `None` if this process itself is the server.
    _task: Option<AbortOnDropHandle<()>>,
}

#[derive(Default)]
struct Known {
    /// The entry of each version. Empty until the first request ended.
    entries: ArcSwap<HashMap<GroupVersion, Version>>,
    /// The last time at which the entries were known to be current.
    current: parking_lot::Mutex<Option<Instant>>,
}

#[derive(Debug, thiserror::Error)]
enum BackendError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("{path}: {code}")]
    Refused { path: String, code: StatusCode },
    /// The process ends, and with it the thread that decodes documents.
    #[error(transparent)]
    Stopped(#[from] JoinError),
}

/// The task's state between two requests.
#[derive(Default)]
struct Memory {
    etag: Option<String>,
    versions: HashMap<GroupVersion, VersionDiscovery>,
}

impl PolledBackend {
    /// Takes the entries from the server if this process is it, else starts the task.
    pub(super) fn new(
        source: Source,
        before: Option<&PolledBackend>,
        metrics: DiscoveryMetrics,
        changed: impl Fn() + Send + 'static,
    ) -> Self {
        match &source.server {
            DocumentServer::Remote(_) => Self::start(source, before, metrics, changed),
            DocumentServer::Own(documents) => {
                let entries = own_entries(&source, documents);
                let known = Known {
                    entries: ArcSwap::from_pointee(entries),
                    ..Known::default()
                };
                Self {
                    source,
                    known: Arc::new(known),
                    _task: None,
                }
            }
        }
    }

    /// Starts the task. Until the first answer, the entries of `before` are used, an
    /// earlier task for the same service. `changed` is called when entries have
    /// changed.
    fn start(
        source: Source,
        before: Option<&PolledBackend>,
        metrics: DiscoveryMetrics,
        changed: impl Fn() + Send + 'static,
    ) -> Self {
        let known = Arc::new(Known::default());
        let mut memory = Memory::default();
        if let Some(before) = before {
            let entries = before.known.entries.load();
            let mut entries = HashMap::clone(&entries);
            entries
                .retain(|version, _| source.versions.iter().any(|v| v.group_version == *version));
            for (version, entry) in &entries {
                if let Ok(known) = serde_json::from_slice::<VersionDiscovery>(&entry.json) {
                    memory.versions.insert(version.clone(), known);
                }
            }
            known.entries.store(Arc::new(entries));
            *known.current.lock() = *before.known.current.lock();
        }
        let (asked, told) = (source.clone(), known.clone());
        let task = tokio::spawn(async move {
            ask_forever(&asked, &told, memory, &metrics, changed).await;
        });
        Self {
            source,
            known,
            _task: Some(AbortOnDropHandle::new(task)),
        }
    }

    pub(super) fn is_same(&self, source: &Source) -> bool {
        self.source.name == source.name
            && self.source.versions == source.versions
            && self.source.server.is_same(&source.server)
    }

    pub(super) fn is_own(&self) -> bool {
        matches!(self.source.server, DocumentServer::Own(_))
    }

    /// Returns the versions that the backend is registered for and serves.
    pub(super) fn entries(&self) -> Vec<(SourceVersion, Version)> {
        let known = self.known.entries.load();
        let of = |v: &SourceVersion| Some((v.clone(), known.get(&v.group_version)?.clone()));
        self.source.versions.iter().filter_map(of).collect()
    }

    pub(super) fn age(&self) -> Option<Duration> {
        self.known.current.lock().map(|then| then.elapsed())
    }
}

/// Returns the entry of each version of this process' own.
fn own_entries(source: &Source, documents: &OwnDocuments) -> HashMap<GroupVersion, Version> {
    let mut versions = HashMap::new();
    for SourceVersion { group_version, .. } in &source.versions {
        let json = documents.json(&group_version.path());
        let list = json.and_then(|json| ResourceList::parse(json).ok());
        let discovery = list.and_then(|list| list.into_discovery(&group_version.version).ok());
        versions.extend(discovery.map(|discovery| (group_version.clone(), discovery)));
    }
    let entry = |gv: &GroupVersion| (gv.clone(), entry(&versions, gv, true));
    versions.keys().map(entry).collect()
}

async fn ask_forever(
    source: &Source,
    known: &Known,
    mut memory: Memory,
    metrics: &DiscoveryMetrics,
    changed: impl Fn(),
) {
    let mut backoff = BACKOFF.0;
    loop {
        let began = Instant::now();
        let (entries, failure) = ask(source, &mut memory).await;
        let is_new = **known.entries.load() != entries;
        if is_new {
            known.entries.store(Arc::new(entries));
            changed();
        }
        let pause = match failure {
            None => {
                *known.current.lock() = Some(began);
                let refreshed = match is_new {
                    true => Refreshed::Changed(()),
                    false => Refreshed::Unchanged,
                };
                metrics.refreshed(&source.name, &refreshed);
                backoff = BACKOFF.0;
                POLL_INTERVAL
            }
            Some(error) => {
                metrics.refreshed(&source.name, &Refreshed::<()>::Failed);
                if is_new {
                    tracing::warn!(source = source.name, %error, "discovery failed");
                } else {
                    tracing::debug!(source = source.name, %error, "discovery failed");
                }
                let pause = backoff;
                backoff = backoff.saturating_mul(2).min(BACKOFF.1);
                pause
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Does one round of requests. Returns an entry for each registered version, and the
/// first error. A version whose request failed keeps its known entry, marked as
/// stale. Documents are read and written on blocking threads, because the backend
/// decides how large they are.
async fn ask(
    source: &Source,
    memory: &mut Memory,
) -> (HashMap<GroupVersion, Version>, Option<BackendError>) {
    let (everything, mut failure) = match ask_everything(source, memory).await {
        Ok(found) => (Some(found), None),
        Err(error) => (None, Some(error)),
    };
    let mut states = Vec::new();
    for registered in &source.versions {
        let gv = &registered.group_version;
        let current = match everything {
            Some(true) => true,
            // The backend has no `APIGroupDiscoveryList`: each version is
            // requested.
            Some(false) => match ask_version(source, gv, memory).await {
                Ok(()) => true,
                Err(error) => {
                    failure.get_or_insert(error);
                    false
                }
            },
            None => false,
        };
        states.push((gv.clone(), current));
    }
    let versions = std::mem::take(&mut memory.versions);
    let written = spawn_blocking(move || {
        let entries = states.into_iter().map(|(gv, current)| {
            let entry = entry(&versions, &gv, current);
            (gv, entry)
        });
        (entries.collect(), versions)
    });
    match written.await {
        Ok((entries, versions)) => {
            memory.versions = versions;
            (entries, failure)
        }
        Err(stopped) => (HashMap::new(), Some(stopped.into())),
    }
}

/// Writes the entry of a version. It is empty if the backend does not mention the
/// version.
fn entry(
    versions: &HashMap<GroupVersion, VersionDiscovery>,
    gv: &GroupVersion,
    current: bool,
) -> Version {
    let mut entry = versions.get(gv).cloned().unwrap_or_default();
    gv.version.clone_into(&mut entry.version);
    entry.freshness = if current { "Current" } else { "Stale" }.to_owned();
    Version {
        name: gv.version.clone(),
        json: go_json::to_vec(&entry).into(),
    }
}

/// Returns false if the backend has no `APIGroupDiscoveryList`.
async fn ask_everything(source: &Source, memory: &mut Memory) -> Result<bool, BackendError> {
    const PATH: &str = "/apis";
    let etag = memory.etag.take();
    let fetched = source.server.fetch(PATH, ACCEPT, etag.as_deref(), LIMITS);
    match fetched.await? {
        Fetched::NotModified => {
            memory.etag = etag;
            Ok(true)
        }
        Fetched::Refused(code) if code == StatusCode::SERVICE_UNAVAILABLE => {
            let path = PATH.to_owned();
            Err(BackendError::Refused { path, code })
        }
        Fetched::Document(headers, body)
            if is_everything(&text(&headers, CONTENT_TYPE).unwrap_or_default()) =>
        {
            memory.versions = spawn_blocking(move || all_versions(&body)).await??;
            memory.etag = text(&headers, ETAG);
            Ok(true)
        }
        Fetched::Refused(_) | Fetched::Document(..) => Ok(false),
    }
}

async fn ask_version(
    source: &Source,
    version: &GroupVersion,
    memory: &mut Memory,
) -> Result<(), BackendError> {
    let path = version.path();
    let accept = "application/json";
    match source.server.fetch(&path, accept, None, LIMITS).await? {
        Fetched::Document(_, body) => {
            let name = version.version.clone();
            let read = move || ResourceList::parse(&body)?.into_discovery(&name);
            let known = spawn_blocking(read).await??;
            memory.versions.insert(version.clone(), known);
            Ok(())
        }
        Fetched::Refused(code) => Err(BackendError::Refused { path, code }),
        Fetched::NotModified => Err(BackendError::Refused {
            path,
            code: StatusCode::NOT_MODIFIED,
        }),
    }
}

fn all_versions(body: &[u8]) -> Result<HashMap<GroupVersion, VersionDiscovery>, Unreadable> {
    let mut versions = HashMap::new();
    for group in GroupDiscoveryList::parse(body)?.items {
        for version in group.versions {
            let name = GroupVersion {
                group: group.metadata.name.clone(),
                version: version.version.clone(),
            };
            versions.insert(name, version);
        }
    }
    Ok(versions)
}

/// Tells whether a Content-Type is that of an `APIGroupDiscoveryList`.
fn is_everything(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let json = parts.next() == Some("application/json");
    let params: Vec<(&str, &str)> = parts.filter_map(|p| p.split_once('=')).collect();
    let param = |name: &str| {
        let found = params.iter().find(|(n, _)| *n == name);
        found.map_or("", |(_, value)| value.trim_matches('"'))
    };
    json && param("as") == "APIGroupDiscoveryList"
        && param("g") == "apidiscovery.k8s.io"
        && param("v") == "v2"
}
