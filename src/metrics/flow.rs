//! The metrics of requests in flight and of requests that wait.

use std::time::Duration;

use apifront_fairness::FairnessMetrics;
use prometheus::{
    HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    register_histogram_vec_with_registry, register_int_counter_vec_with_registry,
    register_int_gauge_vec_with_registry,
};

use super::ForwardedMetrics;

/// kube-apiserver's buckets for the time that requests wait.
const WAIT_BUCKETS: [f64; 13] = [
    0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0,
];

#[derive(Clone)]
pub struct FlowMetrics {
    pub fairness: FairnessMetrics,
    /// The highest number of reads in the last second.
    pub read_only: IntGauge,
    pub mutating: IntGauge,
    waiting: IntGaugeVec,
    rejected: IntCounterVec,
    waited: HistogramVec,
    pub forwarded: ForwardedMetrics,
    /// The turns for work on other threads.
    pub turns: IntGauge,
    /// The bytes of answers that are being made or wait for their readers.
    pub answer_bytes: IntGauge,
    slow: IntCounterVec,
}

/// The series of one resource that requests take turns to use.
#[derive(Clone, Debug)]
pub struct PoolMetrics {
    name: &'static str,
    pub waiting: IntGauge,
    rejected: IntCounterVec,
    waited: HistogramVec,
}

impl PoolMetrics {
    pub fn rejected(&self, reason: &'static str) {
        self.rejected.with_label_values(&[self.name, reason]).inc();
    }

    /// Measures the time that a request waited. `let_in`: it got its turn.
    pub fn waited(&self, time: Duration, let_in: bool) {
        let execute = if let_in { "true" } else { "false" };
        self.waited
            .with_label_values(&[self.name, execute])
            .observe(time.as_secs_f64());
    }
}

impl FlowMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let inflight = register_int_gauge_vec_with_registry!(
            "apiserver_current_inflight_requests",
            "Maximal number of currently used inflight request limit of this apiserver per request kind in last second.",
            &["request_kind"],
            registry
        )?;
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            prometheus::Result::Ok(gauge)
        };
        Ok(Self {
            fairness: FairnessMetrics::register(registry)?,
            read_only: inflight.with_label_values(&["readOnly"]),
            mutating: inflight.with_label_values(&["mutating"]),
            waiting: register_int_gauge_vec_with_registry!(
                "apifront_turns_waiting_requests",
                "Requests that have their seats and wait: for room for their answer, or for a \
                 processor.",
                &["resource"],
                registry
            )?,
            rejected: register_int_counter_vec_with_registry!(
                "apifront_turns_rejected_requests_total",
                "Requests that had their seats and were refused, because they waited too long or \
                 too many of their user waited.",
                &["resource", "reason"],
                registry
            )?,
            waited: register_histogram_vec_with_registry!(
                "apifront_turns_wait_duration_seconds",
                "The time that such requests waited, until they had what they waited for or gave \
                 up.",
                &["resource", "execute"],
                WAIT_BUCKETS.to_vec(),
                registry
            )?,
            forwarded: ForwardedMetrics::register(registry)?,
            turns: gauge(
                "apifront_turns_executing",
                "Pieces of work that keep a processor busy now, on threads of their own.",
            )?,
            answer_bytes: gauge(
                "apifront_answer_bytes",
                "Bytes of answers that are being made or wait for their readers, as far as the \
                 cache does not share them.",
            )?,
            slow: register_int_counter_vec_with_registry!(
                "apifront_slow_clients_total",
                "Requests that ended because their client sent its body, or read its answer, too \
                 slowly.",
                &["what"],
                registry
            )?,
        })
    }

    pub fn too_slow(&self, what: &'static str) {
        self.slow.with_label_values(&[what]).inc();
    }

    /// Returns the series of a resource that requests take turns to use.
    pub fn pool(&self, name: &'static str) -> PoolMetrics {
        PoolMetrics {
            name,
            waiting: self.waiting.with_label_values(&[name]),
            rejected: self.rejected.clone(),
            waited: self.waited.clone(),
        }
    }
}
