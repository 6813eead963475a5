//! Metrics of requests, under kube-apiserver's names, so that its dashboards and
//! alerts work here.

use std::sync::Arc;

use prometheus::core::Collector;
use prometheus::{
    HistogramVec, IntCounterVec, IntGaugeVec, Registry, register_histogram_vec_with_registry,
    register_int_counter_vec_with_registry, register_int_gauge_vec_with_registry,
};

use super::{KnownName, ResourceMetrics};

const DURATION_BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// The labels of a request's series, in this order.
const REQUEST_LABELS: [&str; 7] = [
    "verb",
    "group",
    "version",
    "resource",
    "subresource",
    "scope",
    "component",
];

/// The vectors from which [`ResourceMetrics`] take their series.
#[derive(Clone)]
pub(super) struct Vectors {
    pub total: IntCounterVec,
    pub duration: HistogramVec,
    pub sli_duration: HistogramVec,
    pub sizes: HistogramVec,
    pub long_running: IntGaugeVec,
    pub terminations: IntCounterVec,
    pub aborts: IntCounterVec,
    pub watch: WatchVectors,
}

/// From half a millisecond to the time limit of a slow reader.
const DELIVERY_BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0,
];

#[derive(Clone)]
pub(super) struct WatchVectors {
    pub events: IntCounterVec,
    pub event_sizes: HistogramVec,
    pub delivery: HistogramVec,
    pub list_duration: HistogramVec,
}

pub struct RequestMetrics {
    vectors: Vectors,
    unknown: Arc<ResourceMetrics>,
}

impl Vectors {
    fn register(registry: &Registry) -> prometheus::Result<Self> {
        let with = |more: &[&'static str]| [&REQUEST_LABELS[..], more].concat();
        Ok(Self {
            total: register_int_counter_vec_with_registry!(
                "apiserver_request_total",
                "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
                &with(&["dry_run", "code"]),
                registry
            )?,
            duration: register_histogram_vec_with_registry!(
                "apiserver_request_duration_seconds",
                "Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
                &with(&["dry_run"]),
                DURATION_BUCKETS.to_vec(),
                registry
            )?,
            sli_duration: register_histogram_vec_with_registry!(
                "apiserver_request_sli_duration_seconds",
                "Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, resource, subresource, scope and component.",
                &REQUEST_LABELS,
                DURATION_BUCKETS[2..].to_vec(),
                registry
            )?,
            sizes: register_histogram_vec_with_registry!(
                "apiserver_response_sizes",
                "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
                &REQUEST_LABELS,
                growing(1000.0, 10.0, 7),
                registry
            )?,
            long_running: register_int_gauge_vec_with_registry!(
                "apiserver_longrunning_requests",
                "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component. Not all requests are tracked this way.",
                &REQUEST_LABELS,
                registry
            )?,
            terminations: register_int_counter_vec_with_registry!(
                "apiserver_request_terminations_total",
                "Number of requests which apiserver terminated in self-defense.",
                &with(&["code"]),
                registry
            )?,
            aborts: register_int_counter_vec_with_registry!(
                "apiserver_request_aborts_total",
                "Number of requests which apiserver aborted possibly due to a timeout, for each group, version, verb, resource, subresource and scope",
                &REQUEST_LABELS[..6],
                registry
            )?,
            watch: WatchVectors::register(registry)?,
        })
    }
}

impl WatchVectors {
    fn register(registry: &Registry) -> prometheus::Result<Self> {
        let gvr = ["group", "version", "resource"];
        Ok(Self {
            events: register_int_counter_vec_with_registry!(
                "apiserver_watch_events_total",
                "Number of events sent in watch clients",
                &gvr,
                registry
            )?,
            event_sizes: register_histogram_vec_with_registry!(
                "apiserver_watch_events_sizes",
                "Watch event size distribution in bytes",
                &gvr,
                growing(1024.0, 2.0, 8),
                registry
            )?,
            delivery: register_histogram_vec_with_registry!(
                "apifront_watch_delivery_seconds",
                "Time from the arrival of an event from upstream to its write to a watcher.",
                &gvr,
                DELIVERY_BUCKETS.to_vec(),
                registry
            )?,
            list_duration: register_histogram_vec_with_registry!(
                "apiserver_watch_list_duration_seconds",
                "Response latency distribution in seconds for watch list requests broken by group, version, resource and scope.",
                &["group", "version", "resource", "scope"],
                [&DURATION_BUCKETS[2..], &[90.0, 120.0, 180.0, 300.0]].concat(),
                registry
            )?,
        })
    }
}

/// Returns buckets that grow by `factor`.
fn growing(first: f64, factor: f64, count: i32) -> Vec<f64> {
    (0..count).map(|n| first * factor.powi(n)).collect()
}

impl RequestMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let vectors = Vectors::register(registry)?;
        Ok(Self {
            unknown: Arc::new(ResourceMetrics::new(vectors.clone(), None)),
            vectors,
        })
    }

    /// Returns the series of a resource. Without a name, these are the common series
    /// of all unknown resources.
    pub fn resource(&self, name: Option<&KnownName>) -> Arc<ResourceMetrics> {
        match name {
            Some(name) => name.series(|| ResourceMetrics::new(self.vectors.clone(), Some(name))),
            None => self.unknown.clone(),
        }
    }

    /// Returns the number of finished requests.
    pub fn total(&self) -> u64 {
        let families = self.vectors.total.collect();
        let series = families.iter().flat_map(|family| family.get_metric());
        // Counters are whole numbers below 2^53.
        series.map(|m| m.get_counter().get_value()).sum::<f64>() as u64
    }

    /// Returns the series of a path that is no resource. Like kube-apiserver, this
    /// puts the paths `/healthz`, `/livez` and `/readyz` into `subresource`. The
    /// lifetime makes it impossible to pass a request's path.
    pub fn path(&self, path: &'static str) -> ResourceMetrics {
        ResourceMetrics::of_path(self.vectors.clone(), path)
    }
}
