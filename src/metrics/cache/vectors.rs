//! The vectors from which a cached resource takes its series.

use prometheus::{
    GaugeVec, IntCounterVec, IntGaugeVec, Registry, register_gauge_vec_with_registry,
    register_int_counter_vec_with_registry, register_int_gauge_vec_with_registry,
};

/// The first labels of each vector. They name the resource.
const RESOURCE: [&str; 3] = ["group", "version", "resource"];

#[derive(Clone)]
pub(super) struct Vectors {
    pub(super) requests: IntCounterVec,
    pub(super) restarts: IntCounterVec,
    pub(super) state: IntGaugeVec,
    pub(super) objects: IntGaugeVec,
    pub(super) bytes: IntGaugeVec,
    pub(super) resource_version: IntGaugeVec,
    pub(super) watchers: IntGaugeVec,
    pub(super) watch_ends: IntCounterVec,
    pub(super) late_events: IntCounterVec,
    pub(super) settle: GaugeVec,
    pub(super) suspended: IntGaugeVec,
    pub(super) snapshots: IntGaugeVec,
    pub(super) staleness: GaugeVec,
    pub(super) proof_age: GaugeVec,
    pub(super) lag: GaugeVec,
    pub(super) history: GaugeVec,
    pub(super) self_checks: IntCounterVec,
}

impl Vectors {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, more: &[&str]| counter(registry, name, help, more);
        let gauge = |name: &str, help: &str, more: &[&str]| gauge(registry, name, help, more);
        let seconds = |name: &str, help: &str| seconds(registry, name, help);
        Ok(Self {
            requests: counter(
                "apifront_cache_requests_total",
                "Reads by who answered them, and why not the cache.",
                &["verb", "result", "reason"],
            )?,
            restarts: counter(
                "apifront_reflector_restarts_total",
                "Upstream watches begun anew, by reason.",
                &["reason"],
            )?,
            state: gauge(
                "apifront_reflector_state",
                "1 for the state the reflector is in.",
                &["state"],
            )?,
            objects: gauge("apifront_cache_objects", "Objects held in memory.", &[])?,
            bytes: gauge(
                "apifront_cache_bytes",
                "Bytes held in memory, by what for.",
                &["kind"],
            )?,
            resource_version: gauge(
                "apifront_cache_resource_version",
                "Newest resourceVersion seen.",
                &[],
            )?,
            watchers: gauge("apifront_watchers", "Clients watching from the cache.", &[])?,
            watch_ends: counter(
                "apifront_watch_ends_total",
                "Watches served from the cache that ended, by reason.",
                &["reason"],
            )?,
            late_events: counter(
                "apifront_fresh_late_events_total",
                "Events that arrived after a probe had proven their version.",
                &["promise"],
            )?,
            settle: seconds(
                "apifront_fresh_settle_seconds",
                "How long a read waits for late events after a probe.",
            )?,
            suspended: gauge(
                "apifront_fresh_suspended",
                "1 while events have come later than promised, and probes are not believed.",
                &[],
            )?,
            snapshots: gauge(
                "apifront_cache_snapshots",
                "States kept besides the current one.",
                &[],
            )?,
            staleness: seconds(
                "apifront_cache_staleness_seconds",
                "Time since upstream last said something of the resource.",
            )?,
            proof_age: seconds(
                "apifront_cache_proof_age_seconds",
                "Time since the resource was last known to be as upstream.",
            )?,
            lag: seconds(
                "apifront_cache_lag_seconds",
                "Time since upstream's watch was lost; 0 while it is open.",
            )?,
            history: seconds(
                "apifront_cache_history_seconds",
                "Age of the oldest event a watch can begin with.",
            )?,
            self_checks: counter(
                "apifront_cache_self_check_total",
                "Comparisons of a resource with upstream's list of the same version.",
                &["result"],
            )?,
        })
    }
}

fn counter(
    registry: &Registry,
    name: &str,
    help: &str,
    more: &[&str],
) -> prometheus::Result<IntCounterVec> {
    let labels = [&RESOURCE[..], more].concat();
    register_int_counter_vec_with_registry!(name, help, &labels, registry)
}

fn gauge(
    registry: &Registry,
    name: &str,
    help: &str,
    more: &[&str],
) -> prometheus::Result<IntGaugeVec> {
    let labels = [&RESOURCE[..], more].concat();
    register_int_gauge_vec_with_registry!(name, help, &labels, registry)
}

fn seconds(registry: &Registry, name: &str, help: &str) -> prometheus::Result<GaugeVec> {
    register_gauge_vec_with_registry!(name, help, &RESOURCE, registry)
}
