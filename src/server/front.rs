//! Everything a request may need, as one value that a reload replaces.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_watch_cache::metrics::CacheState;
use apifront_watch_cache::read::{OwnWrites, Shards, SharedReads};
use apifront_watch_cache::reflector::{Cache, Entry, Selection};
use apifront_watch_cache::store::Store;
use arc_swap::ArcSwap;
use kubernetes_wire::api::GroupVersionResource;

use super::drain::Drain;
use super::self_check::SelfChecks;
use crate::aggregation::Aggregation;
use crate::audit::Audit;
use crate::authn::{Authenticator, RequestHeaderNames};
use crate::authz::{Authorizer, ImpersonationAuthorizer};
use crate::config::Config;
use crate::deprecation::Deprecations;
use crate::discovery::Discovery;
use crate::flow::Flow;
use crate::health::Health;
use crate::identity;
use crate::metrics::Metrics;
use crate::openapi::OpenApi;

pub struct Front {
    pub config: Arc<Config>,
    pub gate: Gate,
    pub cache: Arc<Cache>,
    pub aggregation: Arc<Aggregation>,
    /// Always the one in force, for what outlives a reload.
    pub aggregation_now: Arc<ArcSwap<Aggregation>>,
    pub discovery: Arc<Discovery>,
    pub shared: Arc<SharedReads>,
    pub shards: Arc<Shards>,
    pub writes: Arc<OwnWrites>,
    pub openapi: Arc<OpenApi>,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    pub limits: Arc<Flow>,
    pub audit: Arc<Audit>,
    pub deprecations: Arc<Deprecations>,
    pub drain: Arc<Drain>,
    pub self_checks: Arc<SelfChecks>,
    pub started: Instant,
}

/// Who may come in, and as whom they go on.
pub enum Gate {
    /// Whoever reaches the loopback listener acts as apifront's own user.
    Owner,
    Delegated(Box<Delegated>),
}

pub struct Delegated {
    pub authenticator: Arc<Authenticator>,
    pub authorizer: Arc<Authorizer>,
    pub impersonator: Arc<ImpersonationAuthorizer>,
    /// The front proxy's header names, where one is trusted.
    pub front_proxy: Option<RequestHeaderNames>,
    pub forward_as: identity::Mode,
}

impl Front {
    /// Brings the gauges that are not kept up with every event up to date.
    pub(super) fn observe_cache(&self) {
        self.discovery.observe();
        let now = Instant::now();
        for entry in self.cache.entries() {
            let Some(store) = entry.store() else { continue };
            let state = state(&entry, &store, now);
            let gauges = self.metrics.cache.resource(&entry.gvr);
            gauges.observe(&state);
            gauges.settle.set(entry.settle(now).as_secs_f64());
            gauges.suspended.set(entry.is_suspended(now).into());
            for late in entry.take_late() {
                gauges.late_event(late.broken);
            }
        }
        let backends = self.aggregation.distinct_backends().into_iter();
        let others = backends.map(|backend| backend.upstream.load_full());
        for upstream in std::iter::once(self.cache.upstream()).chain(others) {
            for endpoint in upstream.endpoints() {
                self.metrics
                    .upstream
                    .healthy(&endpoint.name, endpoint.is_healthy());
            }
        }
    }
}

/// What a cached resource is like at this moment.
pub(super) fn state(entry: &Entry, store: &Store, now: Instant) -> CacheState {
    let snapshot = store.snapshot();
    let memory = store.memory();
    let since = |then: Option<Instant>| {
        then.map_or(Duration::ZERO, |then| now.saturating_duration_since(then))
    };
    let lag = entry.disconnected_for(now);
    CacheState {
        objects: snapshot.len(),
        bytes: [
            memory.objects,
            memory.history,
            memory.derived,
            memory.retained,
        ],
        resource_version: snapshot.resource_version,
        snapshots: memory.snapshots,
        // What the first list says is known by its loss alone.
        staleness: since(store.heard_at()).max(lag),
        lag,
        history: since(store.window().oldest_at),
    }
}

impl Gate {
    /// The header names of a trusted front proxy.
    pub(super) fn front_proxy(&self) -> Option<&RequestHeaderNames> {
        match self {
            Self::Owner => None,
            Self::Delegated(gate) => gate.front_proxy.as_ref(),
        }
    }
}

impl Selection for Config {
    fn allows(&self, gvr: &GroupVersionResource) -> bool {
        self.cache.caches(gvr) && self.apis.runtime_config.is_resource_enabled(gvr)
    }
}
