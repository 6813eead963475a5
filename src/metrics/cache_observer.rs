//! Counts what a cache tells of itself.

use std::sync::Arc;

use apifront_watch_cache::{Observer, SelfCheckResult, Shed};
use kubernetes_wire::api::GroupVersionResource;

use super::{CacheMetrics, MemoryMetrics};

pub(super) struct CacheObserver {
    pub cache: Arc<CacheMetrics>,
    pub memory: Arc<MemoryMetrics>,
}

impl Observer for CacheObserver {
    fn reflector_state(&self, gvr: &GroupVersionResource, state: &'static str) {
        self.cache.resource(gvr).reflector_state(state);
    }

    fn reflector_restarted(&self, gvr: &GroupVersionResource, reason: &'static str) {
        self.cache.resource(gvr).reflector_restarted(reason);
    }

    fn reflector_ended(&self, gvr: &GroupVersionResource) {
        self.cache.forget(gvr);
    }

    fn self_checked(&self, gvr: &GroupVersionResource, result: SelfCheckResult) {
        self.cache.resource(gvr).self_checked(result);
    }

    fn reading(&self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.memory.reading.set(bytes);
    }

    fn memory_limit(&self, bytes: Option<usize>) {
        self.memory.limit(bytes);
    }

    fn shed(&self, what: Shed) {
        self.memory.shed(what);
    }

    fn made_ahead(&self) {
        self.memory.made_ahead.inc();
    }
}
