//! Prometheus metrics: one registry, and one struct for each concern, which is
//! passed to the code that observes. `docs/metrics.md` lists the metrics.
//!
//! Label values are from fixed sets, from the configuration, or are names that an
//! answer proved ([`KnownName`]). They never come from a user, an object or an
//! unproven URL.

mod by_label;
mod cache;
mod cache_memory;
mod cache_observer;
mod connections;
mod deprecation;
mod flow;
mod forwarded;
mod known_names;
mod request;
mod resource;
mod saved_stores;
mod shadow;
mod stability;

pub use by_label::ByLabel;
pub use cache::{BYTES, CacheMetrics, CacheResult, CacheState, CachedResource, Reads};
pub use cache_memory::MemoryMetrics;
pub use connections::{ConnectionMetrics, ListenerMetrics};
pub use deprecation::DeprecationMetrics;
pub use flow::{FlowMetrics, PoolMetrics};
pub use forwarded::{ForwardSlotMetrics, ForwardedMetrics};
pub use known_names::{KnownName, KnownNames};
pub use request::RequestMetrics;
pub use resource::{LongRunning, RequestOutcome, ResourceMetrics, WatchEvents};
pub use saved_stores::SavedMetrics;
pub use shadow::ShadowMetrics;
pub use stability::{KUBERNETES, MetricStability, Stability};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apifront_upstream::UpstreamMetrics;
use apifront_watch_cache::Observer;
use bytes::Bytes;
use cache_observer::CacheObserver;
use prometheus::proto::MetricFamily;
use prometheus::{Encoder, IntGauge, Opts, Registry, TextEncoder};

/// The Content-Type of kube-apiserver's `/metrics` for clients without a preference.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

pub struct Metrics {
    pub registry: Registry,
    shows_hidden: AtomicBool,
    tasks: IntGauge,
    pub known: Arc<KnownNames>,
    pub requests: RequestMetrics,
    pub cache: Arc<CacheMetrics>,
    pub memory: Arc<MemoryMetrics>,
    pub upstream: UpstreamMetrics,
    pub flow: FlowMetrics,
    pub deprecation: DeprecationMetrics,
    pub connections: ConnectionMetrics,
    pub shadow: ShadowMetrics,
}

impl Metrics {
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        #[cfg(target_os = "linux")]
        registry.register(Box::new(
            prometheus::process_collector::ProcessCollector::for_self(),
        ))?;
        let build = IntGauge::with_opts(
            Opts::new(
                "apifront_build_info",
                "1, labelled with this program's version.",
            )
            .const_label("version", env!("CARGO_PKG_VERSION")),
        )?;
        build.set(1);
        registry.register(Box::new(build))?;
        let tasks = IntGauge::new(
            "apifront_tasks",
            "Tasks of the runtime: connections, requests, groups of waiting watches, other watches, and what runs beside them.",
        )?;
        registry.register(Box::new(tasks.clone()))?;
        let known = Arc::<KnownNames>::default();
        Ok(Self {
            requests: RequestMetrics::register(&registry)?,
            cache: Arc::new(CacheMetrics::register(&registry, known.clone())?),
            memory: Arc::new(MemoryMetrics::register(&registry)?),
            upstream: UpstreamMetrics::register(&registry)?,
            flow: FlowMetrics::register(&registry)?,
            deprecation: DeprecationMetrics::register(&registry, known.clone())?,
            shadow: ShadowMetrics::register(&registry, known.clone())?,
            known,
            connections: ConnectionMetrics::register(&registry)?,
            registry,
            tasks,
            shows_hidden: AtomicBool::new(false),
        })
    }

    /// Returns what counts the events of a cache.
    pub fn of_cache(&self) -> Arc<dyn Observer> {
        Arc::new(CacheObserver {
            cache: self.cache.clone(),
            memory: self.memory.clone(),
        })
    }

    /// Sets whether deprecated metrics are shown that this release hides.
    pub fn show_hidden(&self, show: bool) {
        self.shows_hidden.store(show, Ordering::Relaxed);
    }

    /// Returns the text exposition of all metrics that are not hidden.
    pub fn encode(&self) -> prometheus::Result<Bytes> {
        let mut out = Vec::with_capacity(64 << 10);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let alive = runtime.metrics().num_alive_tasks();
            self.tasks.set(i64::try_from(alive).unwrap_or(i64::MAX));
        }
        let shows_hidden = self.shows_hidden.load(Ordering::Relaxed);
        let families = with_older_names(self.registry.gather());
        let families = stability::present(families, shows_hidden);
        TextEncoder::new().encode(&families, &mut out)?;
        Ok(out.into())
    }
}

/// Adds a metric under an older name that kube-apiserver had. It is hidden unless it
/// is asked for.
fn with_older_names(mut families: Vec<MetricFamily>) -> Vec<MetricFamily> {
    const NAME: &str = "apiserver_flowcontrol_current_executing_seats";
    const OLDER: &str = "apiserver_flowcontrol_request_concurrency_in_use";
    if let Some(at) = families.iter().position(|family| family.name() == NAME)
        && let Some(mut family) = families.get(at).cloned()
    {
        family.set_name(OLDER.to_owned());
        families.push(family);
        families.sort_by(|a, b| a.name().cmp(b.name()));
    }
    families
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kubernetes_wire::api::GroupVersionResource;
    use kubernetes_wire::request::metric_labels::{DryRun, ScopeLabel, Verb};

    use super::*;

    #[test]
    fn a_request_appears_as_in_kube_apiserver() {
        let metrics = Metrics::new().unwrap();
        let pods = GroupVersionResource::new("", "v1", "pods");
        let pods = metrics.known.prove(&pods, "");
        metrics.requests.resource(pods.as_ref()).observe(
            Verb::List,
            ScopeLabel::Cluster,
            DryRun::No,
            RequestOutcome {
                code: 200,
                elapsed: Duration::from_millis(3),
                response_bytes: 2_000,
            },
        );
        let text = String::from_utf8(metrics.encode().unwrap().to_vec()).unwrap();
        for line in [
            r#"apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1"} 1"#,
            r#"apiserver_request_duration_seconds_bucket{component="apiserver",dry_run="",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1",le="0.005"} 1"#,
            r#"apiserver_response_sizes_bucket{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="LIST",version="v1",le="1000"} 0"#,
            concat!(
                "apifront_build_info{version=\"",
                env!("CARGO_PKG_VERSION"),
                "\"} 1"
            ),
            "# TYPE process_resident_memory_bytes gauge",
        ] {
            assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
        }
    }

    #[test]
    fn names_from_urls_are_no_labels() {
        let metrics = Metrics::new().unwrap();
        for name in ["a", "b"] {
            let gvr = GroupVersionResource::new("made.up", "v1", name);
            let name = metrics.known.find(&gvr, name);
            let resource = metrics.requests.resource(name.as_ref());
            resource.abort(Verb::Get, ScopeLabel::Resource);
        }
        let text = String::from_utf8(metrics.encode().unwrap().to_vec()).unwrap();
        assert!(!text.contains("made.up"));
        assert!(text.contains(
            r#"apiserver_request_aborts_total{group="",resource="",scope="resource",subresource="",verb="GET",version=""} 2"#
        ));
    }

    /// A caller without any right could once create every histogram of every
    /// resource.
    #[test]
    fn refusals_make_no_histograms() {
        let metrics = Metrics::new().unwrap();
        let pods = GroupVersionResource::new("", "v1", "pods");
        let name = metrics.known.prove(&pods, "");
        let resource = metrics.requests.resource(name.as_ref());
        let observe = |code| {
            let outcome = RequestOutcome {
                code,
                elapsed: Duration::ZERO,
                response_bytes: 0,
            };
            resource.observe(Verb::Put, ScopeLabel::Resource, DryRun::All, outcome);
            let text = metrics.encode().unwrap();
            let text = String::from_utf8(text.to_vec()).unwrap();
            let of_pods = text.lines().filter(|l| l.contains(r#"resource="pods""#));
            of_pods.map(str::to_owned).collect::<Vec<_>>()
        };
        let lines = observe(403);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains(r#"code="403""#) && lines[0].ends_with(" 1"));
        assert_eq!(observe(403).len(), 1);
        assert!(observe(404).len() > 40);
        let again = observe(403);
        let count = r#"apiserver_request_duration_seconds_count{"#;
        let count = again.iter().find(|l| l.starts_with(count)).unwrap();
        assert!(count.ends_with(" 2"), "{count}");
        assert!(
            again
                .iter()
                .any(|l| l.contains(r#"code="403""#) && l.ends_with(" 3"))
        );
    }

    #[test]
    fn long_running_requests_are_counted_while_they_run() {
        let metrics = Metrics::new().unwrap();
        let pods = GroupVersionResource::new("", "v1", "pods");
        let pods = metrics.known.prove(&pods, "");
        let resource = metrics.requests.resource(pods.as_ref());
        let line = |n: u32| {
            format!(
                "apiserver_longrunning_requests{{component=\"apiserver\",group=\"\",resource=\"pods\",\
                 scope=\"cluster\",subresource=\"\",verb=\"WATCH\",version=\"v1\"}} {n}\n"
            )
        };
        let text = || String::from_utf8(metrics.encode().unwrap().to_vec()).unwrap();
        let guard = resource.long_running(Verb::Watch, ScopeLabel::Cluster);
        assert!(text().contains(&line(1)));
        drop(guard);
        assert!(text().contains(&line(0)));
    }
}
