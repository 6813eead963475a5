//! The server: its state and its options.

use std::{sync::Arc, time::Duration};

use super::{
    registry::{Registry, Served},
    storage::{self, Storage},
};

#[derive(Clone, Debug)]
pub struct Options {
    /// The time between bookmarks of a watch that allows them.
    pub bookmark_period: Duration,
    /// The number of events that each resource remembers.
    pub history_events: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            // This is kube-apiserver's period.
            bookmark_period: Duration::from_secs(60),
            history_events: storage::HISTORY_EVENTS,
        }
    }
}

/// The state of a server: its storage and its registry. Clones share it.
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
    /// Makes a server with the namespaces, the APIServices and the objects of flow
    /// control that every cluster has, and nothing else.
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
        server.create_flow_control_objects();
        server.register_api_services();
        server
    }

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

    pub(super) fn registry(&self) -> &Registry {
        &self.0.registry
    }

    pub(super) fn served(&self) -> Arc<Served> {
        self.0.registry.served()
    }
}
