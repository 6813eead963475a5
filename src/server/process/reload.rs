//! Puts a new configuration in force. Every part is built first, and only then
//! is anything replaced.

use std::net::SocketAddr;
use std::sync::Arc;

use apifront_upstream::Upstream;
use apifront_watch_cache::reflector::Route;
use arc_swap::ArcSwap;

use super::build::{self, AccessControl, BuildError, PreparedAccess};
use super::settings::server_settings;
use super::start_error::StartError;
use crate::aggregation::api_service_objects::api_services;
use crate::aggregation::{self, AvailabilityMetrics};
use crate::audit;
use crate::authn::CaBundle;
use crate::config::{Config, LiveConfig};
use crate::queries;
use crate::server::listener::tls::{AnyClientCertificate, ServerCertificates};
use crate::server::state::generation::Generation;
use crate::spans;

pub(super) struct Reloader {
    /// The configuration in force.
    pub(super) config: Arc<Config>,
    pub(super) current: Arc<ArcSwap<Generation>>,
    pub(super) upstream: Arc<ArcSwap<Upstream>>,
    pub(super) access: AccessControl,
    pub(super) certificates: Option<Arc<ServerCertificates>>,
    pub(super) clients: Arc<AnyClientCertificate>,
    pub(super) demo: Option<SocketAddr>,
    pub(super) availability: AvailabilityMetrics,
}

/// A configuration whose parts are all built, but not in force.
struct Prepared {
    config: Arc<Config>,
    upstream: Upstream,
    aggregation: aggregation::Prepared,
    certificates: Option<Arc<ServerCertificates>>,
    access: Option<PreparedAccess>,
    audit: audit::Prepared,
    tracing: spans::Prepared,
}

impl Reloader {
    pub(super) async fn reload_forever(mut self, live: Arc<LiveConfig>) {
        let mut generation = live.subscribe();
        while generation.changed().await.is_ok() {
            let config: Arc<Config> = live.load().clone();
            if let Err(error) = self.reload(config).await {
                tracing::error!(%error, "configuration not applied, the running one stays");
                live.report_error(error.to_string());
            }
        }
    }

    async fn reload(&mut self, config: Arc<Config>) -> Result<(), StartError> {
        let prepared = self.prepare(config).await?;
        self.commit(prepared);
        Ok(())
    }

    async fn prepare(&self, config: Arc<Config>) -> Result<Prepared, StartError> {
        let running = self.current.load();
        let settings = build::upstream(&config, self.demo).await?;
        let audit = config.observability.audit.as_ref();
        let tracing = config.observability.tracing_config_file.as_deref();
        Ok(Prepared {
            upstream: Upstream::new(&settings, running.metrics.upstream.clone())?,
            aggregation: build::aggregation(&config, &running.metrics)?,
            certificates: server_certificates(&config)?,
            access: PreparedAccess::new(&config)?,
            tracing: running.tracing.prepare(tracing)?,
            // This comes last, because it opens files to write to.
            audit: running.audit.prepare(audit).await?,
            config,
        })
    }

    /// Replaces the parts that are in force. This cannot fail.
    fn commit(&mut self, prepared: Prepared) {
        let old = self.current.load_full();
        let Prepared {
            config,
            upstream,
            aggregation,
            certificates,
            access,
            audit,
            tracing,
        } = prepared;
        if let (Some(shown), Some(fresh)) = (&self.certificates, &certificates) {
            shown.replace(fresh);
        }
        self.clients.reload(authorities(&access));
        let aggregation = Arc::new(aggregation.apply(&old.aggregation, &self.availability));
        let fresh = Arc::new(Generation {
            settings: Arc::new(server_settings(&config)),
            gate: self.access.gate(access),
            aggregation,
            process: old.process.clone(),
        });
        fresh.flow.reload(&config.flow);
        fresh
            .metrics
            .show_hidden(config.observability.show_hidden_metrics);
        fresh.audit.apply(audit);
        fresh.tracing.apply(tracing);
        upstream.continue_from(&self.upstream.load());
        self.upstream.store(Arc::new(upstream));
        let before = std::mem::replace(&mut self.config, config);
        let config = &self.config;
        if before.upstream != config.upstream {
            // Upstream may be another cluster now.
            fresh.cache.upstream_replaced(&api_services());
            self.access.forget();
            fresh.discovery.upstream_replaced();
            fresh.deprecations.upstream_replaced();
        }
        if before.cache.aggregated != config.cache.aggregated {
            fresh.cache.renew_claims();
        }
        if before.views != config.views || before.upstream != config.upstream {
            fresh.views.forget();
        }
        fresh.views.reload(build::views(config));
        fresh.shapes.reload(&config.shapes);
        self.current.store(fresh.clone());
        fresh.current_aggregation.store(fresh.aggregation.clone());
        // Requests go to the new servers already; now the cache follows.
        show_apis(&fresh);
        preload(&fresh);
        fresh.cache.reconfigured();
        fresh.rights.reloaded();
        fresh.deprecations.wake();
    }
}

pub(super) fn server_certificates(
    config: &Config,
) -> Result<Option<Arc<ServerCertificates>>, StartError> {
    let Some(secure) = &config.serving.secure else {
        return Ok(None);
    };
    let (default, named) = build::certificate_files(secure);
    let loaded = ServerCertificates::load(&default, &named).map_err(BuildError::from)?;
    Ok(Some(Arc::new(loaded)))
}

/// Returns the authorities whose client certificates are asked for.
pub(super) fn authorities(access: &Option<PreparedAccess>) -> impl Iterator<Item = &CaBundle> {
    access.iter().flat_map(PreparedAccess::client_authorities)
}

pub(super) fn preload(generation: &Generation) {
    for pattern in generation.settings.cache.preload.clone() {
        let (cache, settings) = (generation.cache.clone(), generation.settings.clone());
        tokio::spawn(async move { cache.preload(&pattern, settings.as_ref()).await });
    }
}

/// Tells the cache, discovery and OpenAPI which APIs are shown, and which servers
/// serve them.
pub(super) fn show_apis(generation: &Generation) {
    let hidden = &generation.settings.runtime_config;
    let routes = generation.aggregation.upstreams().into_iter();
    let routes = routes.map(|(served, backend)| -> Route { (served, backend) });
    generation.cache.route(routes.collect());
    generation.discovery.set_runtime_config(hidden.clone());
    let mut sources = generation.aggregation.sources();
    sources.extend(generation.settings.queries.enabled.then(queries::source));
    generation.discovery.set_sources(sources.clone());
    generation
        .discovery
        .set_local(generation.aggregation.local());
    generation.openapi.set_runtime_config(hidden.clone());
    generation.openapi.set_sources(sources);
}
