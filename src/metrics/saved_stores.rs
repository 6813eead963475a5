//! Metrics of saved stores.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use apifront_watch_cache::Observer;
use prometheus::{
    Gauge, Histogram, IntCounterVec, IntGauge, Registry, register_gauge_with_registry,
    register_histogram_with_registry, register_int_counter_vec_with_registry,
    register_int_gauge_with_registry,
};

/// Buckets in seconds, from an empty store to gigabytes on a slow disk.
const BUCKETS: [f64; 9] = [0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0, 120.0];

/// The metrics of saving. They are registered only if stores are saved.
pub struct SavedMetrics {
    bytes: IntGauge,
    last: Gauge,
    duration: Histogram,
    saves: IntCounterVec,
    loads: IntCounterVec,
}

impl SavedMetrics {
    /// `refusals` are the reasons for which a saved store is not used.
    pub fn register(registry: &Registry, refusals: &[&str]) -> prometheus::Result<Self> {
        let metrics = Self {
            bytes: register_int_gauge_with_registry!(
                "apifront_cache_saved_bytes",
                "Bytes of saved stores in the directory.",
                registry
            )?,
            last: register_gauge_with_registry!(
                "apifront_cache_last_save_timestamp_seconds",
                "Time at which every store was last saved.",
                registry
            )?,
            duration: register_histogram_with_registry!(
                "apifront_cache_save_duration_seconds",
                "Time to save one store.",
                BUCKETS.to_vec(),
                registry
            )?,
            saves: register_int_counter_vec_with_registry!(
                "apifront_cache_saves_total",
                "Attempts to save a store, by result.",
                &["result"],
                registry
            )?,
            loads: register_int_counter_vec_with_registry!(
                "apifront_cache_saved_loads_total",
                "Saved stores found at the start, by what became of them.",
                &["result"],
                registry
            )?,
        };
        // All series start at 0, so that the first increase can be seen.
        for result in ["saved", "failed"] {
            let _ = metrics.saves.with_label_values(&[result]);
        }
        for result in refusals.iter().chain(&["resumed"]) {
            let _ = metrics.loads.with_label_values(&[*result]);
        }
        Ok(metrics)
    }
}

impl Observer for SavedMetrics {
    fn saved_bytes(&self, bytes: u64) {
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    fn store_saved(&self, took: Duration) {
        self.saves.with_label_values(&["saved"]).inc();
        self.duration.observe(took.as_secs_f64());
    }

    fn save_failed(&self) {
        self.saves.with_label_values(&["failed"]).inc();
    }

    fn all_saved(&self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        self.last.set(since.unwrap_or_default().as_secs_f64());
    }

    fn saved_store_read(&self, result: &'static str) {
        self.loads.with_label_values(&[result]).inc();
    }
}
