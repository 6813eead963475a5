//! The metrics of requests in flight and of requests that wait.

use std::time::Duration;

use prometheus::{
    HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    register_histogram_vec_with_registry, register_int_counter_vec_with_registry,
    register_int_gauge_vec_with_registry,
};

use super::ForwardedMetrics;

/// kube-apiserver's buckets.
const WAIT_BUCKETS: [f64; 13] = [
    0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0,
];

#[derive(Clone)]
pub struct FlowMetrics {
    /// The highest number of reads at one moment of the last second.
    pub read_only: IntGauge,
    pub mutating: IntGauge,
    waiting: IntGaugeVec,
    executing: IntGaugeVec,
    /// The same number as `executing`, under its older name.
    in_use: IntGaugeVec,
    rejected: IntCounterVec,
    waited: HistogramVec,
    pub forwarded: ForwardedMetrics,
    /// The bytes of answers that are being made, or wait for their readers.
    pub answer_bytes: IntGauge,
    slow: IntCounterVec,
}

/// The series of one pool of seats.
#[derive(Clone, Debug)]
pub struct PoolMetrics {
    name: String,
    /// The number of requests in the pool's queues.
    pub waiting: IntGauge,
    rejected: IntCounterVec,
    waited: HistogramVec,
}

impl PoolMetrics {
    /// Counts a refused request. `reason` is one of few fixed words.
    pub fn rejected(&self, reason: &'static str) {
        self.rejected.with_label_values(&[&self.name, reason]).inc();
    }

    /// Measures the time that a request waited. `let_in` tells whether it got a
    /// seat.
    pub fn waited(&self, time: Duration, let_in: bool) {
        let execute = if let_in { "true" } else { "false" };
        self.waited
            .with_label_values(&[&self.name, execute])
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
        Ok(Self {
            read_only: inflight.with_label_values(&["readOnly"]),
            mutating: inflight.with_label_values(&["mutating"]),
            waiting: register_int_gauge_vec_with_registry!(
                "apiserver_flowcontrol_current_inqueue_requests",
                "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
                &["priority_level"],
                registry
            )?,
            executing: register_int_gauge_vec_with_registry!(
                "apiserver_flowcontrol_current_executing_requests",
                "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness subsystem",
                &["priority_level"],
                registry
            )?,
            in_use: register_int_gauge_vec_with_registry!(
                "apiserver_flowcontrol_request_concurrency_in_use",
                "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in the API Priority and Fairness subsystem",
                &["priority_level"],
                registry
            )?,
            rejected: register_int_counter_vec_with_registry!(
                "apiserver_flowcontrol_rejected_requests_total",
                "Number of requests rejected by API Priority and Fairness subsystem",
                &["priority_level", "reason"],
                registry
            )?,
            waited: register_histogram_vec_with_registry!(
                "apiserver_flowcontrol_request_wait_duration_seconds",
                "Length of time a request spent waiting in its queue",
                &["priority_level", "execute"],
                WAIT_BUCKETS.to_vec(),
                registry
            )?,
            forwarded: ForwardedMetrics::register(registry)?,
            answer_bytes: {
                let gauge = IntGauge::new(
                    "apifront_answer_bytes",
                    "Bytes of answers that are being made or wait for their readers, as far as \
                     the cache does not share them.",
                )?;
                registry.register(Box::new(gauge.clone()))?;
                gauge
            },
            slow: register_int_counter_vec_with_registry!(
                "apifront_slow_clients_total",
                "Requests that ended because their client sent its body, or read its answer, too \
                 slowly.",
                &["what"],
                registry
            )?,
        })
    }

    /// Counts a request whose client was too slow. `what` is one of few fixed
    /// words.
    pub fn too_slow(&self, what: &'static str) {
        self.slow.with_label_values(&[what]).inc();
    }

    /// Returns the series of a pool. `name` is a fixed word or a configured
    /// group.
    pub fn pool(&self, name: &str) -> PoolMetrics {
        PoolMetrics {
            name: name.to_owned(),
            waiting: self.waiting.with_label_values(&[name]),
            rejected: self.rejected.clone(),
            waited: self.waited.clone(),
        }
    }

    pub fn executing(&self, name: &str, requests: i64) {
        for gauge in [&self.executing, &self.in_use] {
            gauge.with_label_values(&[name]).set(requests);
        }
    }

    #[cfg(test)]
    pub fn executing_of(&self, name: &str) -> i64 {
        self.executing.with_label_values(&[name]).get()
    }

    /// Removes the gauges of a pool that does not exist any more. Its counters
    /// stay.
    pub fn forget(&self, name: &str) {
        // An error means that the series is gone already.
        let _ = self.waiting.remove_label_values(&[name]);
        let _ = self.executing.remove_label_values(&[name]);
        let _ = self.in_use.remove_label_values(&[name]);
    }
}
