//! Metrics of the requests that apifront makes upstream.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::proto::Metric;
use prometheus::{
    HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    register_histogram_vec_with_registry, register_int_counter_vec_with_registry,
    register_int_gauge_vec_with_registry,
};

/// Seconds: from a cached discovery document to a slow LIST.
const BUCKETS: [f64; 13] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0,
];

/// The purpose of a request upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamKind {
    /// A caller's request, forwarded.
    Forward,
    /// A reflector's list.
    List,
    /// A reflector's watch. Its duration ends when the response begins.
    Watch,
    /// A short watch for events from before a store's history.
    EarlierEvents,
    /// A reflector's request for the server's current resourceVersion.
    Probe,
    /// A read whose result is compared with the cache.
    SelfCheck,
    /// A read of the newest state, for all callers who wait for it.
    SharedRead,
    TokenReview,
    SubjectAccessReview,
    SelfSubjectReview,
    Discovery,
    Health,
}

impl UpstreamKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::List => "list",
            Self::Watch => "watch",
            Self::EarlierEvents => "earlier_events",
            Self::Probe => "probe",
            Self::SelfCheck => "self_check",
            Self::SharedRead => "shared_read",
            Self::TokenReview => "token_review",
            Self::SubjectAccessReview => "subject_access_review",
            Self::SelfSubjectReview => "self_subject_review",
            Self::Discovery => "discovery",
            Self::Health => "health",
        }
    }
}

#[derive(Clone)]
pub struct UpstreamMetrics {
    requests: IntCounterVec,
    duration: HistogramVec,
    healthy: IntGaugeVec,
    /// The connections that callers' watches and logs share.
    pub shared_connections: IntGauge,
}

impl UpstreamMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            requests: register_int_counter_vec_with_registry!(
                "apifront_upstream_requests_total",
                "Requests to upstream servers by purpose and class of the response code.",
                &["kind", "code_class"],
                registry
            )?,
            duration: register_histogram_vec_with_registry!(
                "apifront_upstream_request_duration_seconds",
                "Time from the start of an upstream request to its response headers.",
                &["kind"],
                BUCKETS.to_vec(),
                registry
            )?,
            healthy: register_int_gauge_vec_with_registry!(
                "apifront_upstream_healthy",
                "Whether a configured server passed its last health check.",
                &["server"],
                registry
            )?,
            shared_connections: {
                let gauge = IntGauge::new(
                    "apifront_upstream_shared_connections",
                    "Open HTTP/2 connections that forwarded watches and logs share.",
                )?;
                registry.register(Box::new(gauge.clone()))?;
                gauge
            },
        })
    }

    /// Counts a request and its duration. `code` is `None` when no response
    /// came.
    pub fn observe(&self, kind: UpstreamKind, code: Option<u16>, elapsed: Duration) {
        let class = match code {
            Some(100..200) => "1xx",
            Some(200..300) => "2xx",
            Some(300..400) => "3xx",
            Some(400..500) => "4xx",
            Some(_) => "5xx",
            None => "error",
        };
        self.requests
            .with_label_values(&[kind.as_str(), class])
            .inc();
        self.duration
            .with_label_values(&[kind.as_str()])
            .observe(elapsed.as_secs_f64());
    }

    /// Returns the number of requests for every purpose.
    pub fn total(&self) -> u64 {
        self.sum(|_| true)
    }

    /// Returns the number of requests that are not forwarded for callers.
    pub fn own(&self) -> u64 {
        self.sum(|kind| kind != UpstreamKind::Forward.as_str())
    }

    fn sum(&self, of: impl Fn(&str) -> bool) -> u64 {
        let families = self.requests.collect();
        let series = families.iter().flat_map(|family| family.get_metric());
        let is_of = |metric: &&Metric| {
            let mut labels = metric.get_label().iter();
            labels.any(|label| label.name() == "kind" && of(label.value()))
        };
        let counts = series.filter(is_of).map(|m| m.get_counter().get_value());
        // Counters are whole numbers below 2^53.
        counts.sum::<f64>() as u64
    }

    /// Records the health of a server. `server` is a configured address.
    pub fn healthy(&self, server: &str, healthy: bool) {
        self.healthy
            .with_label_values(&[server])
            .set(healthy.into());
    }
}
