//! Metrics of the cache's memory, and of the steps that keep it within the
//! limit.

use apifront_watch_cache::Shed;
use prometheus::{
    IntCounter, IntCounterVec, IntGauge, Registry, register_int_counter_vec_with_registry,
};

pub struct MemoryMetrics {
    shed: IntCounterVec,
    /// Forms of resources that were made before a list asked for them.
    pub made_ahead: IntCounter,
    /// Bytes that are being read and are in no store yet.
    pub reading: IntGauge,
    limit: IntGauge,
}

impl MemoryMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let shed = register_int_counter_vec_with_registry!(
            "apifront_cache_shed_total",
            "Resources that gave up memory, by what they gave up.",
            &["what"],
            registry
        )?;
        // All series start at 0, so that the first increase can be seen.
        for what in Shed::ALL {
            let _ = shed.with_label_values(&[what.as_str()]);
        }
        let gauge = |name, help| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            prometheus::Result::Ok(gauge)
        };
        let made_ahead = IntCounter::new(
            "apifront_cache_made_ahead_total",
            "Forms of a resource's objects that were made before a list asked for them.",
        )?;
        registry.register(Box::new(made_ahead.clone()))?;
        Ok(Self {
            shed,
            made_ahead,
            reading: gauge(
                "apifront_cache_reading_bytes",
                "Bytes of lists and events that are being read and are not cached yet.",
            )?,
            limit: gauge(
                "apifront_cache_memory_limit_bytes",
                "Bytes that the cache may hold, 0 for no limit.",
            )?,
        })
    }

    /// Sets the limit. `None` for no limit.
    pub fn limit(&self, bytes: Option<usize>) {
        let bytes = bytes.map_or(0, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        self.limit.set(bytes);
    }

    /// Returns the limit in force. `None` for no limit.
    pub fn limit_in_force(&self) -> Option<u64> {
        u64::try_from(self.limit.get())
            .ok()
            .filter(|bytes| *bytes > 0)
    }

    pub fn shed(&self, what: Shed) {
        self.shed.with_label_values(&[what.as_str()]).inc();
    }
}
