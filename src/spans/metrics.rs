//! The metrics of tracing.

use prometheus::{IntCounterVec, Opts, Registry};

/// Counts spans by their fate: exported, failed or dropped.
#[derive(Clone, Debug)]
pub struct TracingMetrics {
    spans: IntCounterVec,
}

impl TracingMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let spans = IntCounterVec::new(
            Opts::new(
                "apifront_tracing_spans_total",
                "Spans that ended: exported to the collector, failed because it did not take \
                 them, or dropped because too many waited.",
            ),
            &["result"],
        )?;
        registry.register(Box::new(spans.clone()))?;
        Ok(Self { spans })
    }

    /// Counts spans that the collector accepted.
    pub(super) fn exported(&self, spans: u64) {
        self.count("exported", spans);
    }

    /// Counts spans in a batch that the collector did not accept.
    pub(super) fn failed(&self, spans: u64) {
        self.count("failed", spans);
    }

    /// Counts a span for which the queue had no room.
    pub(super) fn dropped(&self) {
        self.count("dropped", 1);
    }

    fn count(&self, result: &str, spans: u64) {
        self.spans.with_label_values(&[result]).inc_by(spans);
    }
}
