//! Everything a request may need, as one value that a reload replaces.

use std::sync::Arc;
use std::time::Instant;

use super::drain::Drain;
use super::record::KnownResources;
use crate::api::GroupVersionResource;
use crate::authn::{Authenticator, RequestHeaderNames};
use crate::authz::{Authorizer, Impersonator};
use crate::config::Config;
use crate::flow::InFlight;
use crate::health::Health;
use crate::identity;
use crate::metrics::Metrics;
use crate::read::{OwnWrites, SharedReads};
use crate::reflector::{Cache, Selection};

pub struct Front {
    pub config: Arc<Config>,
    pub gate: Gate,
    pub cache: Arc<Cache>,
    pub shared: Arc<SharedReads>,
    pub writes: Arc<OwnWrites>,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    pub limits: Arc<InFlight>,
    pub drain: Arc<Drain>,
    pub known: Arc<KnownResources>,
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
    pub impersonator: Arc<Impersonator>,
    /// The front proxy's header names, where one is trusted.
    pub front_proxy: Option<RequestHeaderNames>,
    pub forward_as: identity::Mode,
}

impl Front {
    /// Brings the gauges that are not kept up with every event up to date.
    pub(super) fn observe_cache(&self) {
        for entry in self.cache.entries() {
            let Some(store) = entry.store() else { continue };
            let snapshot = store.snapshot();
            let gauges = self.metrics.cache.resource(&entry.gvr);
            let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
            gauges.objects.set(number(snapshot.len()));
            gauges
                .bytes
                .set(number(snapshot.bytes() + store.history_bytes()));
            gauges
                .resource_version
                .set(i64::try_from(snapshot.resource_version).unwrap_or(i64::MAX));
            let now = Instant::now();
            gauges.settle.set(entry.settle(now).as_secs_f64());
            gauges.suspended.set(entry.is_suspended(now).into());
            for late in entry.take_late() {
                gauges.late_event(late.broken);
            }
        }
        for endpoint in self.cache.upstream().endpoints() {
            self.metrics
                .upstream
                .healthy(&endpoint.name, endpoint.is_healthy());
        }
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
        self.cache.caches(gvr)
    }
}
