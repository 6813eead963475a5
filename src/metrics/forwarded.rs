//! The metrics of forwarded requests.

use apifront_shares::Exceeded;
use prometheus::{IntCounterVec, IntGauge, Registry, register_int_counter_vec_with_registry};

#[derive(Clone)]
pub struct ForwardedMetrics {
    /// The requests that upstream has not answered yet.
    pub in_flight: ForwardSlotMetrics,
    /// The requests that stay open.
    pub long_running: ForwardSlotMetrics,
    rejected_for_backends: IntCounterVec,
}

#[derive(Clone, Debug)]
pub struct ForwardSlotMetrics {
    pub taken: IntGauge,
    rejected: IntCounterVec,
}

impl ForwardedMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let in_flight = ForwardSlotMetrics::register(
            registry,
            "apifront_forwarded_requests",
            "Forwarded requests that no API server has answered yet, watches and streams apart.",
            "apifront_forwarded_rejected_total",
        )?;
        let long_running = ForwardSlotMetrics::register(
            registry,
            "apifront_forwarded_long_running_requests",
            "Forwarded watches, logs, exec, attach, port-forward and proxy requests open now.",
            "apifront_forwarded_long_running_rejected_total",
        )?;
        let rejected_for_backends = register_int_counter_vec_with_registry!(
            "apifront_backend_requests_rejected_total",
            "Requests that were refused because their backend had too many in flight, by limit.",
            &["limit"],
            registry
        )?;
        for limit in ["user", "total"] {
            let _ = rejected_for_backends.with_label_values(&[limit]);
        }
        Ok(Self {
            in_flight,
            long_running,
            rejected_for_backends,
        })
    }

    /// Counts a request for which its backend has no slot.
    pub fn rejected_for_backend(&self, exceeded: Exceeded) {
        let labels = [limit(exceeded)];
        self.rejected_for_backends.with_label_values(&labels).inc();
    }
}

impl ForwardSlotMetrics {
    fn register(
        registry: &Registry,
        taken: &str,
        help: &str,
        rejected: &str,
    ) -> prometheus::Result<Self> {
        let taken = IntGauge::new(taken, help)?;
        registry.register(Box::new(taken.clone()))?;
        let rejected = register_int_counter_vec_with_registry!(
            rejected,
            "Such requests that were refused, by the limit they would have exceeded.",
            &["limit"],
            registry
        )?;
        // The series begin at 0, so that the first rejection shows.
        for limit in ["user", "total"] {
            let _ = rejected.with_label_values(&[limit]);
        }
        Ok(Self { taken, rejected })
    }

    pub fn rejected(&self, exceeded: Exceeded) {
        self.rejected.with_label_values(&[limit(exceeded)]).inc();
    }
}

fn limit(exceeded: Exceeded) -> &'static str {
    match exceeded {
        Exceeded::OfOne => "user",
        Exceeded::Total => "total",
    }
}
