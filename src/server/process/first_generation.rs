//! The first generation of a process, made from the configuration at its start.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use apifront_upstream::Upstream;
use apifront_upstream::review::{ReviewClient, ReviewError};
use apifront_watch_cache::fingerprint::FingerprintKey;
use apifront_watch_cache::read::{OwnWrites, SharedReads, UpstreamFeatures};
use apifront_watch_cache::reflector::Cache;
use apifront_watch_cache::self_check::SelfChecks;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;

use super::build::{self, AccessControl, PreparedAccess};
use super::health_checks::health;
use super::reload::{Reloader, authorities, server_certificates};
use super::settings::server_settings;
use super::start_error::StartError;
use crate::aggregation::{Aggregation, AvailabilityMetrics};
use crate::audit::{Audit, AuditMetrics};
use crate::authn::AuthnMetrics;
use crate::authz::AuthzMetrics;
use crate::config::{Config, LiveConfig};
use crate::deprecation::Deprecations;
use crate::discovery::{Discovery, DiscoveryMetrics};
use crate::flow::Flow;
use crate::metrics::Metrics;
use crate::openapi::{OpenApi, OpenApiMetrics};
use crate::outage::{Outage, OutageMetrics};
use crate::queries::{KeptOrders, QueryMetrics, Windows};
use crate::server::listener::tls::AnyClientCertificate;
use crate::server::state::api_service_watches::ApiServiceWatches;
use crate::server::state::drain::Drain;
use crate::server::state::generation::Generation;
use crate::server::state::known_rights::RightsFeed;
use crate::server::state::process_state::ProcessState;
use crate::server::state::saved_rbac::CachedRbac;
use crate::shadow::Shadow;
use crate::shapes::{ShapeMetrics, Shapes};
use crate::spans::{Tracing, TracingMetrics};
use crate::status::talkers::Talkers;
use crate::status::{History, UsageReader};
use crate::views::{Views, ViewsMetrics};

/// Makes every part of the server from a configuration. The result holds the
/// first generation, and replaces it when the configuration changes. `demo` is the
/// address of the API server of the demo, if it runs.
pub(super) async fn build(
    live: &Arc<LiveConfig>,
    config: Arc<Config>,
    metrics: Arc<Metrics>,
    demo: Option<SocketAddr>,
) -> Result<Reloader, StartError> {
    let settings = build::upstream(&config, demo).await?;
    let upstream = Upstream::new(&settings, metrics.upstream.clone())?;
    let upstream = Arc::new(ArcSwap::from_pointee(upstream));
    let deprecations = Arc::new(Deprecations::new(metrics.deprecation.clone()));
    let saved = build::saved_stores(&config, &metrics.registry)?;
    let cache = Cache::new(upstream.clone(), metrics.of_cache()).saved_in(saved);
    let cache = Arc::new(cache);
    let rbac = Arc::new(CachedRbac::new(cache.clone()));
    let access = access_control(&upstream, &deprecations, &metrics, rbac.clone())?;
    let availability = AvailabilityMetrics::register(&metrics.registry)?;
    let aggregation = build::aggregation(&config, &metrics)?;
    let aggregation = Arc::new(aggregation.apply(&Aggregation::default(), &availability));
    let process = ProcessParts {
        live,
        config: &config,
        metrics,
        upstream: &upstream,
        cache,
        aggregation: &aggregation,
        deprecations,
        rbac,
    };
    let process = Arc::new(process.assemble().await?);
    let certificates = server_certificates(&config)?;
    let prepared = PreparedAccess::new(&config)?;
    let clients = Arc::new(AnyClientCertificate::new(authorities(&prepared)));
    let gate = access.gate(prepared);
    process
        .metrics
        .show_hidden(config.observability.show_hidden_metrics);
    let generation = Generation {
        settings: Arc::new(server_settings(&config)),
        gate,
        aggregation,
        process,
    };
    Ok(Reloader {
        config,
        current: Arc::new(ArcSwap::from_pointee(generation)),
        upstream,
        access,
        certificates,
        clients,
        demo,
        availability,
    })
}

fn access_control(
    upstream: &Arc<ArcSwap<Upstream>>,
    deprecations: &Arc<Deprecations>,
    metrics: &Metrics,
    rbac: Arc<CachedRbac>,
) -> Result<AccessControl, StartError> {
    let deprecations = deprecations.clone();
    let release = move || deprecations.release().map(|r| (r.major, r.minor));
    Ok(AccessControl::new(
        Arc::new(CurrentUpstream(upstream.clone())),
        AuthnMetrics::register(&metrics.registry)?,
        AuthzMetrics::register(&metrics.registry)?,
        rbac,
        release,
    ))
}

struct ProcessParts<'a> {
    live: &'a Arc<LiveConfig>,
    config: &'a Config,
    metrics: Arc<Metrics>,
    upstream: &'a Arc<ArcSwap<Upstream>>,
    cache: Arc<Cache>,
    aggregation: &'a Arc<Aggregation>,
    deprecations: Arc<Deprecations>,
    rbac: Arc<CachedRbac>,
}

impl ProcessParts<'_> {
    async fn assemble(self) -> Result<ProcessState, StartError> {
        let Self {
            live,
            config,
            metrics,
            upstream,
            cache,
            ..
        } = self;
        let registry = &metrics.registry;
        let outage = OutageMetrics::register(registry, metrics.known.clone())?;
        let outage = Arc::new(Outage::new(outage));
        let discovery = Discovery::new(upstream.clone(), DiscoveryMetrics::register(registry)?);
        let flow = Arc::new(Flow::new(&config.flow, metrics.flow.clone()));
        let health = health(live, &cache, upstream, &outage, &flow);
        let audit = Audit::new(AuditMetrics::register(registry)?);
        audit.apply(audit.prepare(config.observability.audit.as_ref()).await?);
        let tracing = Tracing::new(TracingMetrics::register(registry)?);
        tracing.apply(tracing.prepare(config.observability.tracing_config_file.as_deref())?);
        let fingerprints = FingerprintKey::random()?;
        let shadow = Shadow::new(metrics.shadow.clone(), fingerprints.clone());
        let rights = RightsFeed::new(self.rbac);
        let views = Views::new(rights.subscribe(), ViewsMetrics::register(registry)?);
        views.reload(build::views(config));
        let queries = QueryMetrics::register(registry)?;
        let query_orders = Arc::new(KeptOrders::register(registry)?);
        let query_windows = Windows::register(registry)?;
        let shapes = Shapes::new(ShapeMetrics::register(registry)?, &config.shapes);
        let openapi = OpenApi::new(upstream.clone(), OpenApiMetrics::register(registry)?);
        let live = live.clone();
        Ok(ProcessState {
            configuration_error: Box::new(move || live.last_error()),
            upstream: upstream.clone(),
            cache,
            current_aggregation: ArcSwap::new(self.aggregation.clone()),
            discovery: Arc::new(discovery),
            shared_reads: SharedReads::default(),
            upstream_features: UpstreamFeatures::default(),
            own_writes: Arc::new(OwnWrites::new(Instant::now())),
            openapi: Arc::new(openapi),
            health,
            metrics,
            flow,
            audit,
            tracing,
            deprecations: self.deprecations,
            own_user: Arc::default(),
            drain: Arc::new(Drain::default()),
            outage,
            self_checks: SelfChecks::new(fingerprints),
            shadow: Arc::new(shadow),
            rights,
            views,
            shapes,
            queries,
            query_orders,
            query_windows,
            watch_groups: Arc::default(),
            api_service_watches: ApiServiceWatches::default(),
            talkers: Arc::new(Talkers::new(Instant::now())),
            history: History::default(),
            usage: UsageReader::default(),
            started: Instant::now(),
        })
    }
}

/// Sends each review to the current upstream.
struct CurrentUpstream(Arc<ArcSwap<Upstream>>);

#[async_trait]
impl ReviewClient for CurrentUpstream {
    async fn create_review(
        &self,
        path: &str,
        body: Bytes,
    ) -> Result<(http::StatusCode, Bytes), ReviewError> {
        self.0.load_full().create_review(path, body).await
    }

    fn is_reachable(&self) -> bool {
        self.0.load().any_healthy()
    }
}
