//! Requests, under kube-apiserver's names, so that its dashboards and alerts
//! work here.

use std::sync::Arc;

use prometheus::{
    HistogramVec, IntCounterVec, IntGaugeVec, Registry, register_histogram_vec_with_registry,
    register_int_counter_vec_with_registry, register_int_gauge_vec_with_registry,
};

use super::{KnownName, ResourceMetrics};

const DURATION_BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
    10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
];

/// The vectors, from which [`ResourceMetrics`] take their series.
#[derive(Clone)]
pub(super) struct Vectors {
    pub total: IntCounterVec,
    pub duration: HistogramVec,
    pub sli_duration: HistogramVec,
    pub sizes: HistogramVec,
    pub long_running: IntGaugeVec,
    pub terminations: IntCounterVec,
    pub aborts: IntCounterVec,
    pub watch_events: IntCounterVec,
    pub watch_event_sizes: HistogramVec,
    pub watch_list_duration: HistogramVec,
}

pub struct RequestMetrics {
    vectors: Vectors,
    unknown: Arc<ResourceMetrics>,
}

impl RequestMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let seven = [
            "verb",
            "group",
            "version",
            "resource",
            "subresource",
            "scope",
            "component",
        ];
        let with = |more: &[&'static str]| [&seven[..], more].concat();
        let gvr = ["group", "version", "resource"];
        let doubling = |first: f64, factor: f64, count: i32| -> Vec<f64> {
            (0..count).map(|n| first * factor.powi(n)).collect()
        };
        let vectors = Vectors {
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
                &seven,
                DURATION_BUCKETS[2..].to_vec(),
                registry
            )?,
            sizes: register_histogram_vec_with_registry!(
                "apiserver_response_sizes",
                "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
                &seven,
                doubling(1000.0, 10.0, 7),
                registry
            )?,
            long_running: register_int_gauge_vec_with_registry!(
                "apiserver_longrunning_requests",
                "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component. Not all requests are tracked this way.",
                &seven,
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
                &seven[..6],
                registry
            )?,
            watch_events: register_int_counter_vec_with_registry!(
                "apiserver_watch_events_total",
                "Number of events sent in watch clients",
                &gvr,
                registry
            )?,
            watch_event_sizes: register_histogram_vec_with_registry!(
                "apiserver_watch_events_sizes",
                "Watch event size distribution in bytes",
                &gvr,
                doubling(1024.0, 2.0, 8),
                registry
            )?,
            watch_list_duration: register_histogram_vec_with_registry!(
                "apiserver_watch_list_duration_seconds",
                "Response latency distribution in seconds for watch list requests broken by group, version, resource and scope.",
                &["group", "version", "resource", "scope"],
                [&DURATION_BUCKETS[2..], &[90.0, 120.0, 180.0, 300.0]].concat(),
                registry
            )?,
        };
        Ok(Self {
            unknown: Arc::new(ResourceMetrics::new(vectors.clone(), None)),
            vectors,
        })
    }

    /// The series of a resource; without a name, of all that is not known.
    pub fn resource(&self, name: Option<&KnownName>) -> Arc<ResourceMetrics> {
        match name {
            Some(name) => name.series(|| ResourceMetrics::new(self.vectors.clone(), Some(name))),
            None => self.unknown.clone(),
        }
    }

    /// The series of what is no resource. kube-apiserver puts the paths
    /// `/healthz`, `/livez` and `/readyz` into `subresource`; hence the
    /// lifetime: a path from a request cannot be passed.
    pub fn path(&self, path: &'static str) -> ResourceMetrics {
        ResourceMetrics::of_path(self.vectors.clone(), path)
    }
}
