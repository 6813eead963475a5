//! An API server in memory: the HTTP surface of kube-apiserver over storage
//! that lives and dies with the process. `make run` serves it behind the proxy,
//! and tests use it as a backend.
//!
//! ```text
//! http (routing, negotiation, handlers) ─▶ registry (what is served, strategies)
//!   │                                        │
//!   └─▶ view/encoding (bytes) ◀── storage (versioned, ordered, watchable) ◀─┘
//! ```
//!
//! It speaks JSON over plain HTTP/1.1 and h2c. There is no authentication, no
//! authorization and no controller: whoever reaches it may do everything, and
//! a Deployment makes no pods. It must be served on loopback only.

mod activity;
mod apply;
mod discovery;
mod encoding;
mod http;
mod lifecycle;
mod meta;
mod registry;
mod samples;
mod schema;
mod serving;
pub mod storage;
mod strategic;
mod table;
mod view;

use std::{sync::Arc, time::Duration};

pub use serving::Handle;

use self::{registry::Registry, storage::Storage};

/// What a caller may choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// Between bookmarks of a watch that allows them.
    pub bookmark_period: Duration,
    /// Events each resource remembers.
    pub history_events: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // As kube-apiserver.
            bookmark_period: Duration::from_secs(60),
            history_events: storage::HISTORY_EVENTS,
        }
    }
}

/// The state of a server: what it stores and what it serves. Clones share it.
#[derive(Clone)]
pub struct EmbeddedServer(Arc<Inner>);

struct Inner {
    storage: Storage,
    registry: Registry,
    options: Options,
}

impl Default for EmbeddedServer {
    fn default() -> Self {
        Self::new()
    }
}

impl EmbeddedServer {
    /// A server with the namespaces every cluster has and nothing else.
    pub fn new() -> Self {
        Self::with_options(Options::default())
    }

    pub fn with_options(options: Options) -> Self {
        let server = Self(Arc::new(Inner {
            storage: Storage::new(options.history_events),
            registry: Registry::default(),
            options,
        }));
        server.create_system_namespaces();
        server
    }

    /// A server with something to look at.
    pub fn with_samples() -> Self {
        let server = Self::new();
        server.load_samples();
        server
    }

    pub fn options(&self) -> &Options {
        &self.0.options
    }

    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    fn registry(&self) -> &Registry {
        &self.0.registry
    }

    fn served(&self) -> Arc<registry::Served> {
        self.0.registry.served()
    }
}
