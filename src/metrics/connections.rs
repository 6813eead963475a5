//! The metrics of clients' connections: open, refused and closed ones.

use prometheus::{
    IntCounterVec, IntGauge, IntGaugeVec, Registry, register_int_counter_vec_with_registry,
    register_int_gauge_vec_with_registry,
};

#[derive(Clone)]
pub struct ConnectionMetrics {
    open: IntGaugeVec,
    refused: IntCounterVec,
    closed: IntCounterVec,
}

#[derive(Clone, Debug)]
pub struct ListenerMetrics {
    listener: &'static str,
    pub open: IntGauge,
    refused: IntCounterVec,
    closed: IntCounterVec,
}

impl ConnectionMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            open: register_int_gauge_vec_with_registry!(
                "apifront_connections",
                "Connections of clients that are open.",
                &["listener"],
                registry
            )?,
            refused: register_int_counter_vec_with_registry!(
                "apifront_connections_refused_total",
                "Connections that were closed at once, by the limit they were over.",
                &["listener", "limit"],
                registry
            )?,
            closed: register_int_counter_vec_with_registry!(
                "apifront_connections_closed_total",
                "Connections that apifront ended by itself, by reason.",
                &["listener", "reason"],
                registry
            )?,
        })
    }

    pub fn listener(&self, listener: &'static str) -> ListenerMetrics {
        ListenerMetrics {
            listener,
            open: self.open.with_label_values(&[listener]),
            refused: self.refused.clone(),
            closed: self.closed.clone(),
        }
    }
}

impl ListenerMetrics {
    /// Counts a connection over a limit. `limit` is one of few fixed words.
    pub fn refused(&self, limit: &'static str) {
        let labels = [self.listener, limit];
        self.refused.with_label_values(&labels).inc();
    }

    pub fn listener(&self) -> &'static str {
        self.listener
    }

    #[cfg(test)]
    pub fn refused_by(&self, limit: &str) -> u64 {
        let labels = [self.listener, limit];
        self.refused.with_label_values(&labels).get()
    }

    /// Counts a connection that apifront closed, by one of few fixed reasons.
    pub fn closed(&self, reason: &'static str) {
        let labels = [self.listener, reason];
        self.closed.with_label_values(&labels).inc();
    }
}
