//! Metrics of discovery: its requests, and the age of its documents.

use std::time::Duration;

use prometheus::{GaugeVec, IntCounter, IntCounterVec, Opts, Registry};

use crate::documents::Refreshed;

#[derive(Clone)]
pub struct DiscoveryMetrics {
    aggregations: IntCounter,
    refreshes: IntCounterVec,
    age: GaugeVec,
}

impl DiscoveryMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            aggregations: IntCounter::new(
                "aggregator_discovery_aggregation_count_total",
                "Counter of number of times discovery was aggregated",
            )?,
            refreshes: IntCounterVec::new(
                Opts::new(
                    "apifront_discovery_refreshes_total",
                    "Questions for a discovery document by who was asked and result: changed, unchanged or failed.",
                ),
                &["source", "result"],
            )?,
            age: GaugeVec::new(
                Opts::new(
                    "apifront_discovery_age_seconds",
                    "Time since the discovery document of a source was last known to be current.",
                ),
                &["source"],
            )?,
        };
        registry.register(Box::new(metrics.aggregations.clone()))?;
        registry.register(Box::new(metrics.refreshes.clone()))?;
        registry.register(Box::new(metrics.age.clone()))?;
        Ok(metrics)
    }

    pub(super) fn aggregated(&self) {
        self.aggregations.inc();
    }

    /// Counts a request for a document. `source` is `upstream` or the name of a
    /// configured service.
    pub(super) fn refreshed<T>(&self, source: &str, refreshed: &Refreshed<T>) {
        let result = match refreshed {
            // A document that was removed has changed.
            Refreshed::NotFound => "changed",
            other => other.as_str(),
        };
        self.refreshes.with_label_values(&[source, result]).inc();
    }

    pub(super) fn age(&self, source: &str, age: Duration) {
        self.age.with_label_values(&[source]).set(age.as_secs_f64());
    }

    pub(super) fn forget(&self, source: &str) {
        // The source may have had no age yet.
        let _gone = self.age.remove_label_values(&[source]);
    }
}
