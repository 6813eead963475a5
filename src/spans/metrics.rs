//! The metrics of tracing.

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

/// The counters of spans, by what became of them.
#[derive(Clone, Debug)]
pub struct TracingMetrics {
    /// The collector took them.
    pub(super) exported: IntCounter,
    /// The collector could not be reached, or did not take them.
    pub(super) failed: IntCounter,
    /// There was no room for them in the queue.
    pub(super) dropped: IntCounter,
}

impl TracingMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let spans = IntCounterVec::new(
            Opts::new(
                "apifront_tracing_spans_total",
                "Counter of spans of sampled requests, by what became of them: exported, failed \
                 (not taken by the collector) or dropped (no room in the queue).",
            ),
            &["result"],
        )?;
        registry.register(Box::new(spans.clone()))?;
        Ok(Self {
            exported: spans.with_label_values(&["exported"]),
            failed: spans.with_label_values(&["failed"]),
            dropped: spans.with_label_values(&["dropped"]),
        })
    }
}
