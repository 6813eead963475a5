//! Whose documents are shown, and what of them.

use std::sync::Arc;

use super::server::Server;
use crate::aggregation::SourceVersion;
use crate::api::GroupVersion;
use crate::config::RuntimeConfig;

/// Replaced as a whole when the configuration changes.
#[derive(Default)]
pub struct View {
    /// In the order of their merge.
    pub backends: Vec<Backend>,
    pub runtime: RuntimeConfig,
}

#[derive(Clone)]
pub struct Backend {
    pub server: Arc<Server>,
    pub versions: Vec<SourceVersion>,
}

impl View {
    /// Upstream's documents are shown as they are.
    pub fn is_plain(&self) -> bool {
        self.backends.is_empty() && self.runtime.is_default()
    }

    pub fn is_backends(&self, version: &GroupVersion) -> bool {
        let versions = self.backends.iter().flat_map(|b| &b.versions);
        versions.into_iter().any(|v| v.group_version == *version)
    }

    pub fn backend(&self, name: &str) -> Option<&Backend> {
        self.backends.iter().find(|b| b.server.name == name)
    }
}
