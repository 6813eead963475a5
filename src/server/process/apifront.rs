//! A running server: its start and its stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use apifront_embedded::EmbeddedServer;
use apifront_upstream::Upstream;
use apifront_upstream::review::{ReviewClient, ReviewError};
use apifront_watch_cache::ResourcePattern;
use apifront_watch_cache::read::{OwnWrites, Shards, SharedReads};
use apifront_watch_cache::reflector::Cache;
use apifront_watch_cache::self_check::SelfChecks;
use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use pingora_core::apps::http_app::HttpServer;
use pingora_core::protocols::http::v2::server::default_h2_options;
use pingora_core::server::configuration::ServerConf;
use pingora_proxy::http_proxy;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::background::{self_check, tend};
use super::build::{self, AccessControl, PreparedAccess};
use super::learn_deprecations;
use super::reload::{Reloader, authorities, preload, server_certificates, show_apis};
use super::start_error::StartError;
use crate::aggregation::{Aggregation, AvailabilityMetrics};
use crate::audit::{self, Audit, AuditMetrics};
use crate::authn::AuthnMetrics;
use crate::authz::AuthzMetrics;
use crate::config::{self, Config, LiveConfig};
use crate::deprecation::Deprecations;
use crate::discovery::{Discovery, DiscoveryMetrics};
use crate::flow::Flow;
use crate::health::{CONFIG, Check, Health, INFORMER_SYNC, UPSTREAM};
use crate::metrics::Metrics;
use crate::openapi::{OpenApi, OpenApiMetrics};
use crate::server::answer::observability::Observability;
use crate::server::listener::connections::{self, Connections, Limits};
use crate::server::listener::deadlines::Deadlines;
use crate::server::listener::http2::Http2Options;
use crate::server::listener::listen::{ConnectionSettings, Listener};
use crate::server::listener::slow_client::SlowClientGuard;
use crate::server::listener::tls::{self, AnyClientCertificate, ServerCertificates};
use crate::server::proxy::Proxy;
use crate::server::state::drain::Drain;
use crate::server::state::generation::Generation;
use crate::server::state::process_state::ProcessState;

/// A running server.
pub struct Apifront {
    current: Arc<ArcSwap<Generation>>,
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

/// Whether the files that a configuration names can be used: certificates,
/// keys, authorities, kubeconfig. It connects to nobody and binds nothing; an exec
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
    pub async fn start(live: Arc<LiveConfig>, metrics: Arc<Metrics>) -> Result<Self, StartError> {
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
        let flow = Arc::new(Flow::new(&config, metrics.flow.clone()));
        let openapi = Arc::new(OpenApi::new(
            upstream.clone(),
            OpenApiMetrics::register(&metrics.registry)?,
        ));
        let process = Arc::new(ProcessState {
            cache,
            current_aggregation: ArcSwap::new(aggregation.clone()),
            discovery: discovery.clone(),
            shared_reads: SharedReads::default(),
            shards: Shards::default(),
            own_writes: Arc::new(OwnWrites::new(Instant::now())),
            openapi: openapi.clone(),
            health: health.clone(),
            metrics,
            flow: flow.clone(),
            audit,
            deprecations,
            drain: drain.clone(),
            self_checks: SelfChecks::default(),
            started: Instant::now(),
        });
        let current = Arc::new(ArcSwap::from_pointee(Generation {
            config: config.clone(),
            gate,
            aggregation,
            process,
        }));

        show_apis(&current.load());
        let mut background = JoinSet::new();
        let reloader = Reloader {
            current: current.clone(),
            upstream: upstream.clone(),
            access,
            certificates: certificates.clone(),
            clients: clients.clone(),
            embedded: embedded_address,
            availability,
        };
        background.spawn(apifront_upstream::check_health(upstream.clone()));
        background.spawn(discovery.run());
        background.spawn(flow.run());
        background.spawn(self_check(current.clone()));
        background.spawn(learn_deprecations::run(current.clone()));
        background.spawn(tend(current.clone()));
        background.spawn(openapi.run());
        background.spawn(reloader.reload_forever(live));
        preload(&current.load());

        let (shutdown, stop) = watch::channel(false);
        let mut server = Self {
            secure_address: secure.as_ref().map(|l| l.address),
            insecure_address: insecure.as_ref().map(|l| l.address),
            observability_address: observability.as_ref().map(|l| l.address),
            current: current.clone(),
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
            let settings = connection_settings(&current, "secure", &clients_connections);
            let app = proxy_app(&current);
            server
                .listeners
                .push(listener.serve(app, Some(tls), settings, stop.clone()));
        }
        if let Some(listener) = insecure {
            let settings = connection_settings(&current, "insecure", &clients_connections);
            let app = proxy_app(&current);
            server
                .listeners
                .push(listener.serve(app, None, settings, stop.clone()));
        }
        if let Some(listener) = observability {
            // These are counted apart: a flood of clients does not keep scrapes out.
            let connections = Connections::new(OBSERVABILITY_CONNECTIONS);
            let settings = connection_settings(&current, "observability", &connections);
            let app = HttpServer::new_app(Observability { current });
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
        let serving = self.current.load().config.serving.clone();
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
        self.current.load().audit.stop().await;
        if let Some(embedded) = self.embedded.take() {
            embedded.stop().await;
        }
        cut_off
    }
}

fn health(
    live: &Arc<LiveConfig>,
    cache: &Arc<Cache>,
    upstream: &Arc<ArcSwap<Upstream>>,
) -> Arc<Health> {
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
    // The server ends with the handle, and the activity of its sample objects too.
    EmbeddedServer::start_default(SocketAddr::from(([127, 0, 0, 1], 0)))
        .await
        .map(Some)
        .map_err(StartError::Embedded)
}

fn tls_settings(
    certificates: Arc<ServerCertificates>,
    clients: Arc<AnyClientCertificate>,
) -> Result<pingora_core::listeners::tls::TlsSettings, StartError> {
    tls::settings(certificates, clients).map_err(|e| StartError::Tls(e.to_string()))
}

fn proxy_app(
    current: &Arc<ArcSwap<Generation>>,
) -> SlowClientGuard<pingora_proxy::HttpProxy<Proxy>> {
    let conf = ServerConf {
        // Connections to a few API servers carry everything.
        upstream_keepalive_pool_size: UPSTREAM_POOL,
        ..ServerConf::default()
    };
    let proxy = http_proxy(
        &Arc::new(conf),
        Proxy {
            current: current.clone(),
        },
    );
    SlowClientGuard::new(proxy, current.load().metrics.flow.clone())
}

fn connection_limits(config: &Config) -> Limits {
    let configured = Limits {
        total: config.serving.max_connections,
        per_client: config.serving.max_connections_per_client,
    };
    let limits = configured.within_open_files(connections::open_files_limit());
    // In the modes for one person, half of the usual 1,024 is plenty.
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
    current: &Arc<ArcSwap<Generation>>,
    listener: &'static str,
    connections: &Arc<Connections>,
) -> ConnectionSettings {
    let generation = current.load();
    let serving = &generation.config.serving;
    let mut h2 = default_h2_options();
    h2.max_concurrent_streams(serving.http2_max_streams_per_connection);
    h2.max_local_error_reset_streams(Some(STREAM_ERRORS));
    let header_bytes = serving.max_request_header_bytes;
    h2.max_header_list_size(u32::try_from(header_bytes).unwrap_or(u32::MAX));
    ConnectionSettings {
        connections: connections.clone(),
        metrics: generation.metrics.connections.listener(listener),
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
