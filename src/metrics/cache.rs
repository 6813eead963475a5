//! What is held in memory and how often it helps.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;
use prometheus::{Gauge, GaugeVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry};

use super::registered;
use crate::api::GroupVersionResource;

/// Who answered a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheResult {
    /// The cache.
    Hit,
    /// The upstream.
    Bypass,
}

impl CacheResult {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Bypass => "bypass",
        }
    }
}

#[derive(Clone)]
struct Vectors {
    requests: IntCounterVec,
    restarts: IntCounterVec,
    state: IntGaugeVec,
    objects: IntGaugeVec,
    bytes: IntGaugeVec,
    resource_version: IntGaugeVec,
    watchers: IntGaugeVec,
    watch_ends: IntCounterVec,
    late_events: IntCounterVec,
    settle: GaugeVec,
    suspended: IntGaugeVec,
}

pub struct CacheMetrics {
    vectors: Vectors,
    by_resource: RwLock<HashMap<GroupVersionResource, Arc<CachedResource>>>,
}

/// The series of one resource. Only resources that are or may be cached have
/// one, so discovery knows them all.
pub struct CachedResource {
    gvr: GroupVersionResource,
    vectors: Vectors,
    /// Objects held.
    pub objects: IntGauge,
    /// Memory they take, encodings included.
    pub bytes: IntGauge,
    /// Newest version seen.
    pub resource_version: IntGauge,
    /// Clients watching.
    pub watchers: IntGauge,
    /// Seconds to wait after a probe.
    pub settle: Gauge,
    /// 1 while probes are not believed.
    pub suspended: IntGauge,
    /// By verb, result and reason: few, so a list.
    requests: RwLock<Vec<([&'static str; 3], IntCounter)>>,
    state: RwLock<Option<&'static str>>,
}

impl CacheMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let gvr = ["group", "version", "resource"];
        let with = |more: &[&'static str]| [&gvr[..], more].concat();
        let gauge = |name: &str, help: &str| -> prometheus::Result<IntGaugeVec> {
            Ok(registered!(registry, IntGaugeVec, name, help, &gvr))
        };
        Ok(Self {
            vectors: Vectors {
                requests: registered!(
                    registry,
                    IntCounterVec,
                    "apifront_cache_requests_total",
                    "Reads by who answered them, and why not the cache.",
                    &with(&["verb", "result", "reason"])
                ),
                restarts: registered!(
                    registry,
                    IntCounterVec,
                    "apifront_reflector_restarts_total",
                    "Upstream watches begun anew, by reason.",
                    &with(&["reason"])
                ),
                state: registered!(
                    registry,
                    IntGaugeVec,
                    "apifront_reflector_state",
                    "1 for the state the reflector is in.",
                    &with(&["state"])
                ),
                objects: gauge("apifront_cache_objects", "Objects held in memory.")?,
                bytes: gauge("apifront_cache_bytes", "Bytes of objects held in memory.")?,
                resource_version: gauge(
                    "apifront_cache_resource_version",
                    "Newest resourceVersion seen.",
                )?,
                watchers: gauge("apifront_watchers", "Clients watching from the cache.")?,
                watch_ends: registered!(
                    registry,
                    IntCounterVec,
                    "apifront_watch_ends_total",
                    "Watches served from the cache that ended, by reason.",
                    &with(&["reason"])
                ),
                late_events: registered!(
                    registry,
                    IntCounterVec,
                    "apifront_fresh_late_events_total",
                    "Events that arrived after a probe had proven their version.",
                    &with(&["promise"])
                ),
                settle: registered!(
                    registry,
                    GaugeVec,
                    "apifront_fresh_settle_seconds",
                    "How long a read waits for late events after a probe.",
                    &gvr
                ),
                suspended: gauge(
                    "apifront_fresh_suspended",
                    "1 while events have come later than promised, and probes are not believed.",
                )?,
            },
            by_resource: RwLock::default(),
        })
    }

    /// The series of a resource. Callers keep the result.
    pub fn resource(&self, gvr: &GroupVersionResource) -> Arc<CachedResource> {
        if let Some(found) = self.by_resource.read().get(gvr) {
            return found.clone();
        }
        self.by_resource
            .write()
            .entry(gvr.clone())
            .or_insert_with(|| Arc::new(CachedResource::new(gvr, &self.vectors)))
            .clone()
    }

    /// A resource is no longer served: its gauges go, its counters stay.
    pub fn forget(&self, gvr: &GroupVersionResource) {
        let Some(resource) = self.by_resource.write().remove(gvr) else {
            return;
        };
        let labels = resource.labels();
        resource.leave_state();
        for gauge in [
            &self.vectors.objects,
            &self.vectors.bytes,
            &self.vectors.resource_version,
            &self.vectors.watchers,
            &self.vectors.suspended,
        ] {
            // Gone already is gone too.
            let _ = gauge.remove_label_values(&labels);
        }
        let _ = self.vectors.settle.remove_label_values(&labels);
    }
}

impl CachedResource {
    fn new(gvr: &GroupVersionResource, vectors: &Vectors) -> Self {
        let labels = [&*gvr.group, &*gvr.version, &*gvr.resource];
        Self {
            objects: vectors.objects.with_label_values(&labels),
            bytes: vectors.bytes.with_label_values(&labels),
            resource_version: vectors.resource_version.with_label_values(&labels),
            watchers: vectors.watchers.with_label_values(&labels),
            settle: vectors.settle.with_label_values(&labels),
            suspended: vectors.suspended.with_label_values(&labels),
            requests: RwLock::default(),
            state: RwLock::new(None),
            gvr: gvr.clone(),
            vectors: vectors.clone(),
        }
    }

    /// A read was answered. `verb` is get, list or watch; `reason` is empty for
    /// what the cache answered alone.
    pub fn request(&self, verb: &'static str, result: CacheResult, reason: &'static str) {
        let key = [verb, result.as_str(), reason];
        if let Some((_, counter)) = self.requests.read().iter().find(|(k, _)| *k == key) {
            counter.inc();
            return;
        }
        let labels = [&self.labels()[..], &key].concat();
        let counter = self.vectors.requests.with_label_values(&labels);
        counter.inc();
        let mut requests = self.requests.write();
        if !requests.iter().any(|(k, _)| *k == key) {
            requests.push((key, counter));
        }
    }

    /// A watch served from the cache ended.
    pub fn watch_ended(&self, reason: &'static str) {
        let labels = [&self.labels()[..], &[reason]].concat();
        self.vectors.watch_ends.with_label_values(&labels).inc();
    }

    /// An event came after a probe; `broken` if somebody had been told that it
    /// would not.
    pub fn late_event(&self, broken: bool) {
        let promise = if broken { "broken" } else { "kept" };
        let labels = [&self.labels()[..], &[promise]].concat();
        self.vectors.late_events.with_label_values(&labels).inc();
    }

    pub fn reflector_restarted(&self, reason: &'static str) {
        let labels = [&self.labels()[..], &[reason]].concat();
        self.vectors.restarts.with_label_values(&labels).inc();
    }

    pub fn reflector_state(&self, state: &'static str) {
        let old = self.state.write().replace(state);
        if let Some(old) = old.filter(|old| *old != state) {
            self.state_gauge(old).set(0);
        }
        self.state_gauge(state).set(1);
    }

    fn leave_state(&self) {
        if let Some(state) = self.state.write().take() {
            let labels = [&self.labels()[..], &[state]].concat();
            let _ = self.vectors.state.remove_label_values(&labels);
        }
    }

    fn state_gauge(&self, state: &str) -> IntGauge {
        let labels = [&self.labels()[..], &[state]].concat();
        self.vectors.state.with_label_values(&labels)
    }

    fn labels(&self) -> [&str; 3] {
        [&self.gvr.group, &self.gvr.version, &self.gvr.resource]
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{Encoder, TextEncoder};

    use super::*;

    #[test]
    fn a_forgotten_resource_leaves_no_gauge() {
        let registry = Registry::new();
        let metrics = CacheMetrics::register(&registry).unwrap();
        let gvr = GroupVersionResource::new("example.com", "v1", "widgets");
        let widgets = metrics.resource(&gvr);
        widgets.objects.set(3);
        widgets.reflector_state("listing");
        widgets.reflector_state("watching");
        widgets.request("list", CacheResult::Bypass, "not_ready");
        let text = || {
            let mut out = Vec::new();
            TextEncoder::new()
                .encode(&registry.gather(), &mut out)
                .unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(text().contains(r#"version="v1"} 3"#));
        assert!(text().contains(r#"state="listing",version="v1"} 0"#));
        assert!(text().contains(r#"state="watching",version="v1"} 1"#));
        assert!(text().contains(r#"reason="not_ready",resource="widgets",result="bypass""#));
        metrics.forget(&gvr);
        assert!(!text().contains("apifront_cache_objects{"));
        assert!(!text().contains(r#"state="watching""#));
        assert!(text().contains("apifront_cache_requests_total{"));
    }
}
