//! Prometheus metrics of the cache.
//!
//! Label values come from fixed sets, or are names of resources that an answer
//! proved and that the owner accepts ([`TakesName`]). They never come from a
//! URL alone, a user or an object.

mod cache;
mod memory;
mod reads;
mod saved;
mod vectors;

pub use cache::{
    BYTES, CacheMetrics, CacheResult, CacheState, CachedResource, SelfCheckResult, TakesName,
};
pub use memory::{MemoryMetrics, Shed};
pub use reads::Reads;
pub(crate) use saved::SavedMetrics;

use std::sync::Arc;

use prometheus::Registry;

/// All metrics of the cache. Clones share their counters.
#[derive(Clone)]
pub struct Metrics {
    pub cache: Arc<CacheMetrics>,
    pub memory: Arc<MemoryMetrics>,
}

impl Metrics {
    pub fn register(registry: &Registry, takes_name: TakesName) -> prometheus::Result<Self> {
        Ok(Self {
            cache: Arc::new(CacheMetrics::register(registry, takes_name)?),
            memory: Arc::new(MemoryMetrics::register(registry)?),
        })
    }
}
