//! Everything a request may need, as one value that a reload replaces.

use std::sync::Arc;

use crate::authn::{Authenticator, RequestHeaderNames};
use crate::authz::{Authorizer, Impersonator};
use crate::config::Config;
use crate::flow::InFlightLimits;
use crate::health::Health;
use crate::identity;
use crate::metrics::Metrics;
use crate::reflector::{Cache, Selection};
use crate::server::drain::Drain;
use crate::api::GroupVersionResource;

pub struct Front {
    pub config: Arc<Config>,
    pub gate: Gate,
    pub cache: Arc<Cache>,
    pub health: Arc<Health>,
    pub metrics: Arc<Metrics>,
    pub limits: Arc<InFlightLimits>,
    pub drain: Arc<Drain>,
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

impl Selection for Config {
    fn allows(&self, gvr: &GroupVersionResource) -> bool {
        self.cache.caches(gvr)
    }
}
