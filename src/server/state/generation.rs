//! One configuration in force, with the parts that are made from it.

use std::ops::Deref;
use std::sync::Arc;

use apifront_watch_cache::reflector::Selection;
use kubernetes_wire::api::GroupVersionResource;

use super::gate::Gate;
use super::process_state::ProcessState;
use crate::aggregation::Aggregation;
use crate::config::Config;

/// Everything that a request may need. A reload replaces the generation as a whole.
/// A request keeps the generation with which it began.
pub struct Generation {
    pub config: Arc<Config>,
    pub gate: Gate,
    pub aggregation: Arc<Aggregation>,
    pub process: Arc<ProcessState>,
}

impl Deref for Generation {
    type Target = ProcessState;

    fn deref(&self) -> &ProcessState {
        &self.process
    }
}

impl Selection for Config {
    fn allows(&self, gvr: &GroupVersionResource) -> bool {
        self.cache.caches(gvr) && self.apis.runtime_config.is_resource_enabled(gvr)
    }

    fn trusts(&self, gvr: &GroupVersionResource) -> bool {
        self.cache.trusts(gvr)
    }
}
