//! Start, reload, stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use apifront_embedded::EmbeddedServer;
use apifront_upstream::Upstream;
use apifront_upstream::review::{ReviewClient, ReviewError};
use apifront_watch_cache::ResourcePattern;
use apifront_watch_cache::read::{OwnWrites, SharedReads};
use apifront_watch_cache::reflector::Cache;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use pingora_core::apps::http_app::HttpServer;
use pingora_core::protocols::http::v2::server::default_h2_options;
use pingora_core::server::configuration::ServerConf;
use pingora_proxy::http_proxy;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::build::{self, AccessControl, BuildError, PreparedAccess};
use super::connections::{self, Connections, Limits};
use super::drain::Drain;
use super::front::Front;
use super::http2::Http2Options;
use super::listen::{ConnectionSettings, Deadlines, ListenError, Listener};
use super::observe::Observe;
use super::pace::Paced;
use super::proxy::Proxy;
use super::tls::{self, AnyClientCertificate, ServerCertificates};
use super::{deprecation, self_check};
use crate::aggregation::{self, Aggregation, AvailabilityMetrics};
use crate::audit::{self, Audit, AuditError, AuditMetrics};
use crate::authn::{AuthnMetrics, CaBundle};
use crate::authz::AuthzMetrics;
use crate::config::{self, Config, Live};
use crate::deprecation::Deprecations;
use crate::discovery::{Discovery, DiscoveryMetrics};
use crate::flow::Flow;
use crate::health::{CONFIG, Check, Health, INFORMER_SYNC, UPSTREAM};
use crate::metrics::Metrics;
use crate::openapi::{OpenApi, OpenApiMetrics};

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Upstream(#[from] apifront_upstream::SettingsError),
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    #[error("TLS: {0}")]
    Tls(String),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error("embedded API server: {0}")]
    Embedded(std::io::Error),
}

/// A running server.
pub struct Apifront {
    front: Arc<ArcSwap<Front>>,
    drain: Arc<Drain>,
    health: Arc<Health>,
    shutdown: watch::Sender<bool>,
    listeners: Vec<JoinHandle<()>>,
    background: JoinSet<()>,
    embedded: Option<apifront_embedded::Handle>,
    pub secure_address: Option<SocketAddr>,
    pub insecure_address: Option<SocketAddr>,
    pub observability_address: Option<SocketAddr>,
}

/// What a reload works on.
struct Parts {
    front: Arc<ArcSwap<Front>>,
    upstream: Arc<ArcSwap<Upstream>>,
    access: AccessControl,
    certificates: Option<Arc<ServerCertificates>>,
    clients: Arc<AnyClientCertificate>,
    embedded: Option<SocketAddr>,
    availability: AvailabilityMetrics,
}

/// A configuration whose every part is built, and none of it in force.
struct Prepared {
    config: Arc<Config>,
    upstream: Upstream,
    aggregation: aggregation::Prepared,
    certificates: Option<Arc<ServerCertificates>>,
    access: Option<PreparedAccess>,
    audit: audit::Prepared,
}

/// Whether the files that a configuration names can be used: certificates,
/// keys, authorities, kubeconfig. Connects to nobody and binds nothing; an exec
/// plugin of the kubeconfig is run.
pub async fn check(config: &Config, metrics: &Metrics) -> Result<(), StartError> {
    server_certificates(config)?;
    PreparedAccess::new(config)?;
    let settings = build::upstream(config, None).await?;
    Upstream::new(&settings, metrics.upstream.clone())?;
    build::aggregation(config, metrics)?;
    if let Some(audit) = &config.observability.audit {
        audit::check(audit).await?;
    }
    Ok(())
}

impl Apifront {
    /// Binds, connects and serves; returns once requests are accepted.
    pub async fn start(live: Arc<Live>, metrics: Arc<Metrics>) -> Result<Self, StartError> {
        let config: Arc<Config> = live.load().clone();
        // Ports first: a taken one is the commonest mistake.
        let bind = |address: Option<SocketAddr>| address.map(Listener::bind).transpose();
        let secure = bind(config.serving.secure.as_ref().map(|s| s.address))?;
        let insecure = bind(config.serving.insecure)?;
        let observability = bind(config.observability.address)?;

        let embedded = start_embedded(&config).await?;
        let embedded_address = embedded.as_ref().map(|e| e.address());
        let settings = build::upstream(&config, embedded_address).await?;
        let upstream = Arc::new(ArcSwap::from_pointee(Upstream::new(
            &settings,
            metrics.upstream.clone(),
        )?));
        let reviews = Arc::new(CurrentUpstream(upstream.clone()));
        let deprecations = Arc::new(Deprecations::new(metrics.deprecation.clone()));
        let known = deprecations.clone();
        let release = move || known.release().map(|r| (r.major, r.minor));
        let access = AccessControl::new(
            reviews,
            AuthnMetrics::register(&metrics.registry)?,
            AuthzMetrics::register(&metrics.registry)?,
            release,
        );
        let drain = Arc::new(Drain::default());
        let availability = AvailabilityMetrics::register(&metrics.registry)?;
        let aggregation = build::aggregation(&config, &metrics)?;
        let aggregation = Arc::new(aggregation.apply(&Aggregation::default(), &availability));
        let cache = Arc::new(Cache::new(upstream.clone(), metrics.of_cache()));
        let discovery = Arc::new(Discovery::new(
            upstream.clone(),
            DiscoveryMetrics::register(&metrics.registry)?,
        ));
        let health = health(&live, &cache, &upstream);
        let audit = Audit::new(AuditMetrics::register(&metrics.registry)?);
        audit.apply(audit.prepare(config.observability.audit.as_ref()).await?);
        let certificates = server_certificates(&config)?;
        let prepared = PreparedAccess::new(&config)?;
        let clients = Arc::new(AnyClientCertificate::new(authorities(&prepared)));
        let gate = access.gate(prepared);
        metrics.show_hidden(config.observability.show_hidden_metrics);
        let limits = Arc::new(Flow::new(&config, metrics.flow.clone()));
        let openapi = Arc::new(OpenApi::new(
            upstream.clone(),
            OpenApiMetrics::register(&metrics.registry)?,
        ));
        let front = Arc::new(ArcSwap::from_pointee(Front {
            config: config.clone(),
            gate,
            cache,
            aggregation: aggregation.clone(),
            aggregation_now: Arc::new(ArcSwap::new(aggregation)),
            discovery: discovery.clone(),
            shared: Arc::new(SharedReads::default()),
            shards: Arc::default(),
            writes: Arc::new(OwnWrites::new(Instant::now())),
            openapi: openapi.clone(),
            health: health.clone(),
            metrics,
            limits: limits.clone(),
            audit,
            deprecations,
            drain: drain.clone(),
            self_checks: Arc::default(),
            started: Instant::now(),
        }));

        show_apis(&front.load());
        let mut background = JoinSet::new();
        let parts = Parts {
            front: front.clone(),
            upstream: upstream.clone(),
            access,
            certificates: certificates.clone(),
            clients: clients.clone(),
            embedded: embedded_address,
            availability,
        };
        background.spawn(apifront_upstream::check_health(upstream.clone()));
        background.spawn(discovery.run());
        background.spawn(limits.run());
        background.spawn(self_check::run(front.clone()));
        background.spawn(deprecation::learn(front.clone()));
        background.spawn(tend(front.clone()));
        background.spawn(openapi.run());
        background.spawn(parts.reload_forever(live));
        preload(&front.load());

        let (shutdown, stop) = watch::channel(false);
        let mut server = Self {
            secure_address: secure.as_ref().map(|l| l.address),
            insecure_address: insecure.as_ref().map(|l| l.address),
            observability_address: observability.as_ref().map(|l| l.address),
            front: front.clone(),
            drain,
            health,
            shutdown,
            listeners: Vec::new(),
            background,
            embedded,
        };
        let clients_connections = Connections::new(connection_limits(&config));
        if let (Some(listener), Some(certificates)) = (secure, certificates) {
            let tls = tls_settings(certificates, clients)?;
            let settings = connection_settings(&front, "secure", &clients_connections);
            let app = proxy_app(&front);
            server
                .listeners
                .push(listener.serve(app, Some(tls), settings, stop.clone()));
        }
        if let Some(listener) = insecure {
            let settings = connection_settings(&front, "insecure", &clients_connections);
            let app = proxy_app(&front);
            server
                .listeners
                .push(listener.serve(app, None, settings, stop.clone()));
        }
        if let Some(listener) = observability {
            // Others than clients: who floods the one does not keep scrapes out.
            let connections = Connections::new(OBSERVABILITY_CONNECTIONS);
            let settings = connection_settings(&front, "observability", &connections);
            let app = HttpServer::new_app(Observe { front });
            server
                .listeners
                .push(listener.serve(app, None, settings, stop));
        }
        Ok(server)
    }

    /// Stops in order: not ready at once; after `shutdownDelayDuration` no new
    /// connections and the streams end; then, within `shutdownGracePeriod`,
    /// whatever is still open. Returns how many requests had to be cut off.
    pub async fn stop(mut self) -> usize {
        let serving = self.front.load().config.serving.clone();
        self.health.shut_down();
        tracing::info!(delay = ?serving.shutdown_delay_duration, "shutting down");
        tokio::time::sleep(serving.shutdown_delay_duration).await;
        // Receivers are gone only when the listeners already are.
        let _stopped = self.shutdown.send(true);
        self.drain.stop();
        for listener in self.listeners.drain(..) {
            if let Err(error) = listener.await {
                tracing::warn!(%error, "listener ended badly");
            }
        }
        let cut_off = self.drain.wait(serving.shutdown_grace_period).await;
        if cut_off > 0 {
            tracing::warn!(requests = cut_off, "cut off");
        }
        self.background.shutdown().await;
        self.front.load().audit.stop().await;
        if let Some(embedded) = self.embedded.take() {
            embedded.stop().await;
        }
        cut_off
    }
}

fn health(live: &Arc<Live>, cache: &Arc<Cache>, upstream: &Arc<ArcSwap<Upstream>>) -> Arc<Health> {
    let config = live.load();
    let health = Health::new(Instant::now(), config.serving.livez_grace_period);
    let upstream = upstream.clone();
    let reachable = move || {
        let upstream = upstream.load();
        upstream
            .any_healthy()
            .then_some(())
            .ok_or_else(|| "no API server is healthy".to_owned())
    };
    health.register(Check::new(UPSTREAM, reachable).readyz_only());
    let (cache, current) = (cache.clone(), live.clone());
    let synced = move || {
        let preloaded = current.load().cache.preload.clone();
        let entries = cache.entries();
        let filled = |pattern: &ResourcePattern| {
            entries
                .iter()
                .any(|e| pattern.matches(&e.gvr) && e.store().is_some())
        };
        let missing: Vec<String> = preloaded
            .iter()
            .filter(|pattern| !filled(pattern))
            .map(ToString::to_string)
            .collect();
        if missing.is_empty() {
            Ok(())
        } else {
            Err(format!("not filled yet: {}", missing.join(", ")))
        }
    };
    health.register(Check::new(INFORMER_SYNC, synced).readyz_only());
    let live = live.clone();
    let reloaded = move || live.last_error().map_or(Ok(()), Err);
    health.register(Check::new(CONFIG, reloaded).informational());
    Arc::new(health)
}

/// Reviews go to whatever upstream is current.
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

async fn start_embedded(config: &Config) -> Result<Option<apifront_embedded::Handle>, StartError> {
    if config.upstream != config::Upstream::Embedded {
        return Ok(None);
    }
    // It ends with the handle, its sample objects' activity too.
    EmbeddedServer::start_default(SocketAddr::from(([127, 0, 0, 1], 0)))
        .await
        .map(Some)
        .map_err(StartError::Embedded)
}

fn server_certificates(config: &Config) -> Result<Option<Arc<ServerCertificates>>, StartError> {
    let Some(secure) = &config.serving.secure else {
        return Ok(None);
    };
    let (default, named) = build::certificate_files(secure);
    let loaded = ServerCertificates::load(&default, &named).map_err(BuildError::from)?;
    Ok(Some(Arc::new(loaded)))
}

fn tls_settings(
    certificates: Arc<ServerCertificates>,
    clients: Arc<AnyClientCertificate>,
) -> Result<pingora_core::listeners::tls::TlsSettings, StartError> {
    tls::settings(certificates, clients).map_err(|e| StartError::Tls(e.to_string()))
}

fn proxy_app(front: &Arc<ArcSwap<Front>>) -> Paced<pingora_proxy::HttpProxy<Proxy>> {
    let conf = ServerConf {
        // Connections to a few API servers carry everything.
        upstream_keepalive_pool_size: UPSTREAM_POOL,
        ..ServerConf::default()
    };
    let proxy = http_proxy(
        &Arc::new(conf),
        Proxy {
            front: front.clone(),
        },
    );
    Paced::new(proxy, front.load().metrics.flow.clone())
}

fn connection_limits(config: &Config) -> Limits {
    let configured = Limits {
        total: config.serving.max_connections,
        per_client: config.serving.max_connections_per_client,
    };
    let limits = configured.within_open_files(connections::open_files_limit());
    // For oneself, half of the usual 1,024 is plenty.
    if limits != configured && config.mode() == config::Mode::Front {
        tracing::info!(
            configured = configured.total,
            limit = limits.total,
            "serving.maxConnections is more than half of the files this process may have open"
        );
    }
    limits
}

fn connection_settings(
    front: &Arc<ArcSwap<Front>>,
    listener: &'static str,
    connections: &Arc<Connections>,
) -> ConnectionSettings {
    let front = front.load();
    let serving = &front.config.serving;
    let mut h2 = default_h2_options();
    h2.max_concurrent_streams(serving.http2_max_streams_per_connection);
    h2.max_local_error_reset_streams(Some(STREAM_ERRORS));
    let header_bytes = serving.max_request_header_bytes;
    h2.max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX));
    ConnectionSettings {
        connections: connections.clone(),
        metrics: front.metrics.connections.listener(listener),
        deadlines: Deadlines {
            header: serving.request_header_timeout,
            idle: serving.idle_timeout,
        },
        http2: Http2Options {
            h2,
            max_streams: serving.http2_max_streams_per_connection,
        },
    }
}

/// Streams that the server has to reset in a connection's life, because of what the
/// client sends on them: none of a proper client, whereas each may have begun work
/// (CVE-2025-8671). h2's default is 1024.
const STREAM_ERRORS: usize = 100;

/// Prometheus keeps one connection for each of its servers; a person's tools come
/// and go.
const OBSERVABILITY_CONNECTIONS: Limits = Limits {
    total: 256,
    per_client: 0,
};

/// Idle upstream connections kept. pingora's 128 would close connections at
/// every burst of concurrent requests.
const UPSTREAM_POOL: usize = 1024;

/// Starts what the configuration wants filled before it is asked for.
fn preload(front: &Front) {
    for pattern in front.config.cache.preload.clone() {
        let (cache, config) = (front.cache.clone(), front.config.clone());
        tokio::spawn(async move { cache.preload(&pattern, config.as_ref()).await });
    }
}

/// Keeps the cache within what the configuration of the time says.
async fn tend(front: Arc<ArcSwap<Front>>) {
    let cache = front.load().cache.clone();
    cache.run_eviction(|| front.load().config.clone()).await;
}

/// What of the API is shown, of whom, and who is asked for it.
fn show_apis(front: &Front) {
    let hidden = &front.config.apis.runtime_config;
    front.cache.route(front.aggregation.upstreams());
    front.discovery.set_runtime_config(hidden.clone());
    front.discovery.set_sources(front.aggregation.sources());
    front.discovery.set_local(front.aggregation.local());
    front.openapi.set_runtime_config(hidden.clone());
    front.openapi.set_sources(front.aggregation.sources());
}

impl Parts {
    async fn reload_forever(self, live: Arc<Live>) {
        let mut generation = live.subscribe();
        while generation.changed().await.is_ok() {
            let config: Arc<Config> = live.load().clone();
            if let Err(error) = self.reload(config).await {
                tracing::error!(%error, "configuration not applied, the running one stays");
                live.report_error(error.to_string());
            }
        }
    }

    /// Builds everything, then swaps everything: where anything fails, nothing is
    /// swapped.
    async fn reload(&self, config: Arc<Config>) -> Result<(), StartError> {
        let prepared = self.prepare(config).await?;
        self.commit(prepared);
        Ok(())
    }

    async fn prepare(&self, config: Arc<Config>) -> Result<Prepared, StartError> {
        let current = self.front.load();
        let settings = build::upstream(&config, self.embedded).await?;
        let audit = config.observability.audit.as_ref();
        Ok(Prepared {
            upstream: Upstream::new(&settings, current.metrics.upstream.clone())?,
            aggregation: build::aggregation(&config, &current.metrics)?,
            certificates: server_certificates(&config)?,
            access: PreparedAccess::new(&config)?,
            // Last, because it opens files to write to.
            audit: current.audit.prepare(audit).await?,
            config,
        })
    }

    /// Nothing here can fail.
    fn commit(&self, prepared: Prepared) {
        let old = self.front.load_full();
        let Prepared {
            config,
            upstream,
            aggregation,
            certificates,
            access,
            audit,
        } = prepared;
        if let (Some(shown), Some(fresh)) = (&self.certificates, &certificates) {
            shown.replace(fresh);
        }
        self.clients.reload(authorities(&access));
        let aggregation = Arc::new(aggregation.apply(&old.aggregation, &self.availability));
        let front = Arc::new(Front {
            config,
            gate: self.access.gate(access),
            cache: old.cache.clone(),
            aggregation: aggregation.clone(),
            aggregation_now: old.aggregation_now.clone(),
            discovery: old.discovery.clone(),
            shared: old.shared.clone(),
            shards: old.shards.clone(),
            writes: old.writes.clone(),
            openapi: old.openapi.clone(),
            health: old.health.clone(),
            metrics: old.metrics.clone(),
            limits: old.limits.clone(),
            audit: old.audit.clone(),
            deprecations: old.deprecations.clone(),
            drain: old.drain.clone(),
            self_checks: old.self_checks.clone(),
            started: old.started,
        });
        front.limits.reload(&front.config);
        front
            .metrics
            .show_hidden(front.config.observability.show_hidden_metrics);
        front.audit.apply(audit);
        self.upstream.store(Arc::new(upstream));
        if old.config.upstream != front.config.upstream {
            // It may be another cluster now.
            front.cache.upstream_replaced();
            front.discovery.upstream_replaced();
            front.deprecations.upstream_replaced();
        }
        self.front.store(front.clone());
        front.aggregation_now.store(aggregation);
        // Whom requests are forwarded to has changed; now what is cached.
        show_apis(&front);
        preload(&front);
        front.cache.reconfigured();
        front.deprecations.wake();
    }
}

/// The authorities whose client certificates are asked for.
fn authorities(access: &Option<PreparedAccess>) -> impl Iterator<Item = &CaBundle> {
    access.iter().flat_map(PreparedAccess::client_authorities)
}
