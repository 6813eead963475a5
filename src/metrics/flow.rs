//! Requests in flight.

use prometheus::{IntGauge, Registry};

use super::registered;

/// The most requests of a kind at one moment of the last second.
#[derive(Clone)]
pub struct FlowMetrics {
    pub read_only: IntGauge,
    pub mutating: IntGauge,
}

impl FlowMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let inflight = registered!(
            registry,
            IntGaugeVec,
            "apiserver_current_inflight_requests",
            "Most requests in flight at one moment of the last second.",
            &["request_kind"]
        );
        Ok(Self {
            read_only: inflight.with_label_values(&["readOnly"]),
            mutating: inflight.with_label_values(&["mutating"]),
        })
    }
}
