//! The metrics of forwarded requests that stay open.

use prometheus::{IntCounterVec, IntGauge, Registry, register_int_counter_vec_with_registry};

#[derive(Clone)]
pub struct ForwardedMetrics {
    pub open: IntGauge,
    rejected: IntCounterVec,
}

impl ForwardedMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let open = IntGauge::new(
            "apifront_forwarded_long_running_requests",
            "Forwarded watches, logs, exec, attach, port-forward and proxy requests open now.",
        )?;
        registry.register(Box::new(open.clone()))?;
        let rejected = register_int_counter_vec_with_registry!(
            "apifront_forwarded_long_running_rejected_total",
            "Such requests that were refused, by the limit they would have exceeded.",
            &["limit"],
            registry
        )?;
        // The series begin at 0, so that the first rejection can be seen.
        for limit in ["user", "total"] {
            let _ = rejected.with_label_values(&[limit]);
        }
        Ok(Self { open, rejected })
    }

    /// Counts a rejected request. `limit` is `user` or `total`.
    pub fn rejected(&self, limit: &'static str) {
        self.rejected.with_label_values(&[limit]).inc();
    }
}
