//! Metrics of cached resources: what is held in memory, and how often it
//! answers.

mod reads;
mod vectors;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use apifront_watch_cache::SelfCheckResult;
use kubernetes_wire::api::GroupVersionResource;
use parking_lot::RwLock;
use prometheus::core::Collector;
use prometheus::{Gauge, IntCounter, IntGauge, Registry};

pub use reads::Reads;

use self::vectors::Vectors;
use super::KnownNames;

/// Whether the cache or upstream answered a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheResult {
    /// The cache.
    Hit,
    /// Upstream, or the cache with an object that upstream was asked for.
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

/// The state of a resource, measured for each scrape.
#[derive(Clone, Copy, Debug)]
pub struct CacheState {
    pub objects: usize,
    /// Bytes by kind, in the order of [`BYTES`].
    pub bytes: [usize; BYTES.len()],
    pub resource_version: u64,
    pub snapshots: usize,
    pub staleness: Duration,
    /// The time since the state was last proven to equal the current upstream's.
    /// `None` if it never was.
    pub proof_age: Option<Duration>,
    pub lag: Duration,
    pub history: Duration,
}

/// The purposes for which bytes are held: the current state; events and the objects
/// that only they hold; values that can be made again; states kept for chunked lists.
pub const BYTES: [&str; 4] = ["objects", "history", "derived", "retained"];

pub struct CacheMetrics {
    vectors: Vectors,
    known: Arc<KnownNames>,
    /// The series of all resources that may have no labels of their own.
    unnamed: OnceLock<Arc<CachedResource>>,
    by_resource: RwLock<HashMap<GroupVersionResource, Arc<CachedResource>>>,
}

/// The series of one resource.
pub struct CachedResource {
    gvr: GroupVersionResource,
    vectors: Vectors,
    /// The clients that watch.
    pub watchers: IntGauge,
    /// The seconds that a read waits for late events after a probe.
    pub settle: Gauge,
    /// 1 while probes are not believed.
    pub suspended: IntGauge,
    /// The counters by verb, result and reason. They are few, so a list is enough.
    requests: RwLock<Vec<([&'static str; 3], IntCounter)>>,
    state: RwLock<Option<&'static str>>,
    restart: RwLock<Option<(&'static str, Instant)>>,
}

impl CacheMetrics {
    pub fn register(registry: &Registry, known: Arc<KnownNames>) -> prometheus::Result<Self> {
        Ok(Self {
            vectors: Vectors::register(registry)?,
            by_resource: RwLock::default(),
            known,
            unnamed: OnceLock::new(),
        })
    }

    /// Returns the series of a resource. Its name must be proven: upstream has
    /// listed the resource or answered a request for it. Callers keep the result.
    pub fn resource(&self, gvr: &GroupVersionResource) -> Arc<CachedResource> {
        if let Some(found) = self.by_resource.read().get(gvr) {
            return found.clone();
        }
        if self.known.prove(gvr, "").is_none() {
            let none = GroupVersionResource::new("", "", "");
            let unnamed = || Arc::new(CachedResource::new(&none, &self.vectors));
            return self.unnamed.get_or_init(unnamed).clone();
        }
        self.by_resource
            .write()
            .entry(gvr.clone())
            .or_insert_with(|| Arc::new(CachedResource::new(gvr, &self.vectors)))
            .clone()
    }

    /// Returns the counted reads of all resources.
    pub fn reads(&self) -> Vec<Reads> {
        let families = self.vectors.requests.collect();
        let series = families.iter().flat_map(|family| family.get_metric());
        series.map(Reads::of_series).collect()
    }

    /// Returns the number of clients that watch from the cache.
    pub fn watchers(&self) -> u64 {
        let families = self.vectors.watchers.collect();
        let series = families.iter().flat_map(|family| family.get_metric());
        // The values are whole numbers below 2^53, so the sum is exact. The cast
        // turns a negative sum into 0.
        series.map(|m| m.get_gauge().get_value()).sum::<f64>() as u64
    }

    /// Removes the gauges of a resource that is no longer served. Its counters
    /// stay.
    pub fn forget(&self, gvr: &GroupVersionResource) {
        let Some(resource) = self.by_resource.write().remove(gvr) else {
            return;
        };
        let labels = resource.labels();
        resource.leave_state();
        let vectors = &self.vectors;
        // Removing fails only for a gauge that is gone already.
        for gauge in [
            &vectors.objects,
            &vectors.resource_version,
            &vectors.watchers,
            &vectors.snapshots,
            &vectors.suspended,
        ] {
            let _ = gauge.remove_label_values(&labels);
        }
        for gauge in [
            &vectors.staleness,
            &vectors.proof_age,
            &vectors.lag,
            &vectors.history,
            &vectors.settle,
        ] {
            let _ = gauge.remove_label_values(&labels);
        }
        for kind in BYTES {
            let labels = [&labels[..], &[kind]].concat();
            let _ = vectors.bytes.remove_label_values(&labels);
        }
    }
}

impl CachedResource {
    fn new(gvr: &GroupVersionResource, vectors: &Vectors) -> Self {
        let labels = [&*gvr.group, &*gvr.version, &*gvr.resource];
        Self {
            watchers: vectors.watchers.with_label_values(&labels),
            settle: vectors.settle.with_label_values(&labels),
            suspended: vectors.suspended.with_label_values(&labels),
            requests: RwLock::default(),
            state: RwLock::new(None),
            restart: RwLock::new(None),
            gvr: gvr.clone(),
            vectors: vectors.clone(),
        }
    }

    /// Counts a read that was answered. `verb` is get, list or watch. `reason` says why
    /// the cache did not answer, or what upstream was asked for an answer of the cache;
    /// it is empty if the cache answered alone.
    pub fn request(&self, verb: &'static str, result: CacheResult, reason: &'static str) {
        let key = [verb, result.as_str(), reason];
        // Mostly the strings are the same statics, so comparing pointers is enough.
        let is_key = |known: &[&'static str; 3]| {
            let mut pairs = known.iter().zip(&key);
            pairs.all(|(a, b)| std::ptr::eq(*a, *b) || a == b)
        };
        if let Some((_, counter)) = self.requests.read().iter().find(|(k, _)| is_key(k)) {
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

    /// Counts a watch served from the cache that ended.
    pub fn watch_ended(&self, reason: &'static str) {
        let labels = [&self.labels()[..], &[reason]].concat();
        self.vectors.watch_ends.with_label_values(&labels).inc();
    }

    /// Counts an event that arrived after a probe had proven its version. `broken`
    /// means that a caller had already been promised that the event would not come.
    pub fn late_event(&self, broken: bool) {
        let promise = if broken { "broken" } else { "kept" };
        let labels = [&self.labels()[..], &[promise]].concat();
        self.vectors.late_events.with_label_values(&labels).inc();
    }

    /// Sets the gauges.
    pub fn observe(&self, state: &CacheState) {
        let labels = self.labels();
        let vectors = &self.vectors;
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let version = i64::try_from(state.resource_version).unwrap_or(i64::MAX);
        for (gauge, value) in [
            (&vectors.objects, number(state.objects)),
            (&vectors.resource_version, version),
            (&vectors.snapshots, number(state.snapshots)),
        ] {
            gauge.with_label_values(&labels).set(value);
        }
        for (gauge, value) in [
            (&vectors.staleness, state.staleness),
            (&vectors.lag, state.lag),
            (&vectors.history, state.history),
        ] {
            gauge.with_label_values(&labels).set(value.as_secs_f64());
        }
        if let Some(age) = state.proof_age {
            let gauge = vectors.proof_age.with_label_values(&labels);
            gauge.set(age.as_secs_f64());
        }
        for (kind, bytes) in BYTES.iter().zip(state.bytes) {
            let labels = [&labels[..], &[*kind]].concat();
            vectors.bytes.with_label_values(&labels).set(number(bytes));
        }
    }

    /// Counts a comparison of the resource with upstream, made or skipped.
    pub fn self_checked(&self, result: SelfCheckResult) {
        let labels = [&self.labels()[..], &[result.as_str()]].concat();
        self.vectors.self_checks.with_label_values(&labels).inc();
    }

    /// Returns the state of the reflector.
    pub fn state(&self) -> Option<&'static str> {
        *self.state.read()
    }

    /// Returns why and when upstream's list or watch was last restarted.
    pub fn last_restart(&self) -> Option<(&'static str, Instant)> {
        *self.restart.read()
    }

    pub fn reflector_restarted(&self, reason: &'static str) {
        *self.restart.write() = Some((reason, Instant::now()));
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
        let metrics = CacheMetrics::register(&registry, Arc::default()).unwrap();
        let gvr = GroupVersionResource::new("example.com", "v1", "widgets");
        let widgets = metrics.resource(&gvr);
        widgets.observe(&CacheState {
            objects: 3,
            bytes: [7; BYTES.len()],
            resource_version: 5,
            snapshots: 1,
            staleness: Duration::from_millis(1500),
            proof_age: Some(Duration::from_secs(9)),
            lag: Duration::ZERO,
            history: Duration::from_secs(60),
        });
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
        assert!(text().contains(r#"kind="history",resource="widgets",version="v1"} 7"#));
        assert!(text().contains(r#"resource="widgets",version="v1"} 1.5"#));
        assert!(text().contains(r#"state="listing",version="v1"} 0"#));
        assert!(text().contains(r#"state="watching",version="v1"} 1"#));
        assert!(text().contains(r#"reason="not_ready",resource="widgets",result="bypass""#));
        assert!(text().contains(r#"resource="widgets",version="v1"} 9"#));
        widgets.request("list", CacheResult::Hit, "");
        widgets.watchers.inc();
        assert_eq!(metrics.watchers(), 1);
        metrics.forget(&gvr);
        for gone in [
            "objects",
            "bytes",
            "staleness_seconds",
            "proof_age_seconds",
            "snapshots",
        ] {
            assert!(
                !text().contains(&format!("apifront_cache_{gone}{{")),
                "{gone}"
            );
        }
        assert!(!text().contains(r#"state="watching""#));
        assert_eq!(metrics.watchers(), 0);
        let mut reads = metrics.reads();
        reads.sort_by_key(|r| r.reason.clone());
        let [hit, bypass] = &reads[..] else {
            panic!("{reads:?}");
        };
        assert!(hit.is_hit() && !bypass.is_hit());
        assert_eq!((&*bypass.reason, bypass.count), ("not_ready", 1));
        assert_eq!((&*bypass.verb, &bypass.gvr), ("list", &gvr));
        assert!(text().contains("apifront_cache_requests_total{"));
    }
}
