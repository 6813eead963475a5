//! The servers and the parts of their documents that are shown.

use std::sync::Arc;

use kubernetes_wire::api::GroupVersion;

use super::server::Server;
use crate::aggregation::SourceVersion;
use crate::runtime_config::RuntimeConfig;

/// The shown servers and group versions. A change of the configuration replaces the
/// whole value.
#[derive(Default)]
pub(super) struct ShownApis {
    pub backends: Vec<ShownBackend>,
    pub runtime: RuntimeConfig,
}

#[derive(Clone)]
pub(super) struct ShownBackend {
    pub server: Arc<Server>,
    pub versions: Vec<SourceVersion>,
}

impl ShownApis {
    /// Tells whether upstream's documents are shown unchanged.
    pub(super) fn is_plain(&self) -> bool {
        self.backends.is_empty() && self.runtime.is_default()
    }

    pub(super) fn is_backends(&self, version: &GroupVersion) -> bool {
        let versions = self.backends.iter().flat_map(|b| &b.versions);
        versions.into_iter().any(|v| v.group_version == *version)
    }

    /// Returns each shown group version of a backend with the backend's index, in
    /// the order in which kube-aggregator merges them: by descending priority of the
    /// group, then by the name of the APIService.
    pub(super) fn in_order(&self) -> Vec<(usize, &GroupVersion)> {
        let all = || {
            let backends = self.backends.iter().enumerate();
            backends.flat_map(|(index, b)| b.versions.iter().map(move |v| (index, v)))
        };
        let priority = |group: &str| {
            let of_group = all().filter(|(_, v)| v.group_version.group == group);
            of_group.map(|(_, v)| v.group_priority_minimum).max()
        };
        let mut versions: Vec<(usize, &GroupVersion)> = all()
            .map(|(index, v)| (index, &v.group_version))
            .filter(|(_, version)| self.runtime.is_enabled(version))
            .collect();
        versions.sort_by_cached_key(|(_, v)| {
            let name = format!("{}.{}", v.version, v.group);
            (std::cmp::Reverse(priority(&v.group)), name)
        });
        versions
    }

    pub(super) fn backend(&self, name: &str) -> Option<&ShownBackend> {
        self.backends.iter().find(|b| b.server.name == name)
    }
}
