//! The settings in force, as far as requests and the tasks of the process read them.

use std::time::Duration;

use apifront_watch_cache::reflector::Selection;
use apifront_watch_cache::{Policy, Settings};
use kubernetes_wire::api::GroupVersionResource;

use crate::browsers::Browsers;
use crate::deprecation::Deprecation;
use crate::outage::Degraded;
use crate::queries::QueriesSettings;
use crate::runtime_config::RuntimeConfig;
use crate::views::ViewCallers;

pub(crate) struct ServerSettings {
    /// The kind of process, as reports name it.
    pub mode: &'static str,
    /// Whether requests act as the user of a kubeconfig, whose name must be learned.
    pub has_own_user: bool,
    pub cache: Settings,
    pub runtime_config: RuntimeConfig,
    pub deprecations: Vec<Deprecation>,
    /// `cache.degraded`, if it names any reads.
    pub degraded: Option<Degraded>,
    /// The callers who may have views, if any may.
    pub views: Option<ViewCallers>,
    pub queries: QueriesSettings,
    pub browsers: Browsers,
    pub enable_priority_and_fairness: bool,
    /// The longest time for which a decision about a caller is used. `None` if callers
    /// are not authorized.
    pub decision_ttl: Option<Duration>,
    pub max_request_header_bytes: usize,
    pub min_request_timeout: Duration,
    pub upstream_request_timeout: Duration,
    pub shutdown_delay: Duration,
    pub shutdown_grace_period: Duration,
}

impl Policy for ServerSettings {
    fn settings(&self) -> &Settings {
        &self.cache
    }

    fn serves(&self, gvr: &GroupVersionResource) -> bool {
        self.runtime_config.is_resource_enabled(gvr)
    }
}

impl Selection for ServerSettings {
    fn allows(&self, gvr: &GroupVersionResource) -> bool {
        self.cache.caches(gvr) && self.runtime_config.is_resource_enabled(gvr)
    }

    fn trusts(&self, gvr: &GroupVersionResource) -> bool {
        self.cache.trusts(gvr)
    }
}
