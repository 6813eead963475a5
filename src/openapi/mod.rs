//! The OpenAPI documents of many servers merged into one: `/openapi/v2` and
//! `/openapi/v3`, from memory.
//!
//! ```text
//! server ─ checks ─▶ root, v2 ─┐
//! server ─ checks ─▶ root, v2 ─┼▶ merged root, merged v2 ─▶ answers
//!        ◀─ on demand ── documents of group versions, by hash ─▲
//! ```
//!
//! Upstream's own documents already describe its built-in types, its custom
//! resources and the backends of its APIServices. apifront adds the backends of its
//! configuration, and removes the APIs that `apis.runtimeConfig` disables. A
//! server's root is always checked for changes; its other documents are requested
//! only when clients ask for them.

mod accept;
mod answer;
mod convert;
mod document;
mod error;
mod gnostic;
mod merged_root;
mod metrics;
mod root;
mod server;
mod shown_apis;
mod v2;
mod v3_cache;

pub use answer::{Answered, Request};
pub use document::Reply;
pub use metrics::OpenApiMetrics;

use std::sync::Arc;

use apifront_upstream::Upstream;
use arc_swap::{ArcSwap, ArcSwapOption};
use merged_root::MergedRoot;
use parking_lot::Mutex;
use server::Server;
use shown_apis::{ShownApis, ShownBackend};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use v3_cache::V3Cache;

use crate::aggregation::Source;
use crate::documents::DocumentServer;
use crate::runtime_config::RuntimeConfig;

pub struct OpenApi {
    main: Arc<Server>,
    /// Written under the lock `changing`.
    shown: ArcSwap<ShownApis>,
    changing: Mutex<()>,
    changed: watch::Sender<()>,
    root: ArcSwapOption<MergedRoot>,
    /// The merged v2 document. The lock is held while it is made, because other
    /// callers need the same document.
    v2: tokio::sync::Mutex<Option<Arc<v2::Merged>>>,
    v3_cache: V3Cache,
    metrics: OpenApiMetrics,
}

impl OpenApi {
    pub fn new(upstream: Arc<ArcSwap<Upstream>>, metrics: OpenApiMetrics) -> Self {
        Self {
            main: Arc::new(Server::new(
                "",
                DocumentServer::Remote(upstream),
                None,
                metrics.clone(),
            )),
            shown: ArcSwap::default(),
            changing: Mutex::new(()),
            changed: watch::Sender::new(()),
            root: ArcSwapOption::empty(),
            v2: tokio::sync::Mutex::default(),
            v3_cache: V3Cache::default(),
            metrics,
        }
    }

    /// Sets the backends whose group versions are shown beside upstream's. A backend
    /// that was set before keeps its documents.
    pub fn set_sources(&self, sources: Vec<Source>) {
        let _changing = self.changing.lock();
        let before = self.shown.load();
        let backend = |source: Source| {
            let known = before.backend(&source.name).map(|b| &b.server);
            let server = match known {
                Some(known) if known.documents.is_same(&source.server) => known.clone(),
                known => Arc::new(Server::new(
                    &source.name,
                    source.server,
                    known.map(Arc::as_ref),
                    self.metrics.clone(),
                )),
            };
            ShownBackend {
                server,
                versions: source.versions,
            }
        };
        let shown = ShownApis {
            backends: sources.into_iter().map(backend).collect(),
            runtime: before.runtime.clone(),
        };
        self.shown.store(Arc::new(shown));
        self.changed.send_replace(());
    }

    pub fn set_runtime_config(&self, runtime: RuntimeConfig) {
        let _changing = self.changing.lock();
        let before = self.shown.load();
        if before.runtime == runtime {
            return;
        }
        let shown = ShownApis {
            backends: before.backends.clone(),
            runtime,
        };
        self.shown.store(Arc::new(shown));
    }

    /// Keeps the documents of all servers recent while this is polled. Each server
    /// has a task.
    pub async fn run(self: Arc<Self>) {
        let mut changed = self.changed.subscribe();
        let mut tasks = JoinSet::new();
        let mut running: Vec<(u64, AbortHandle)> = Vec::new();
        let mut start = |server: Arc<Server>| tasks.spawn(server.keep());
        start(self.main.clone());
        loop {
            changed.borrow_and_update();
            let shown = self.shown.load_full();
            running.retain(|(id, task)| {
                let stays = shown.backends.iter().any(|b| b.server.id == *id);
                if !stays {
                    task.abort();
                }
                stays
            });
            for backend in &shown.backends {
                let server = &backend.server;
                if !running.iter().any(|(id, _)| *id == server.id) {
                    running.push((server.id, start(server.clone())));
                }
            }
            drop(shown);
            if changed.changed().await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
