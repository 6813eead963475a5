//! A running server: its start and its stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use apifront_upstream::{Settings, Upstream};
use arc_swap::ArcSwap;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::background;
use super::build::{self, PreparedAccess};
use super::first_generation;
use super::listeners::Listeners;
use super::reload::{preload, server_certificates, show_apis};
use super::start_error::StartError;
use crate::aggregation::Prepared;
use crate::audit;
use crate::config::{Config, LiveConfig};
use crate::health::Health;
use crate::metrics::Metrics;
use crate::server::state::drain::Drain;
use crate::server::state::generation::Generation;
use crate::spans;

/// Streams end within this part of `shutdownGracePeriod`. The rest is for requests and
/// for the cache that is saved.
const SHARE_OF_STREAMS: f64 = 0.5;

pub struct Apifront {
    current: Arc<ArcSwap<Generation>>,
    drain: Arc<Drain>,
    health: Arc<Health>,
    shutdown: watch::Sender<bool>,
    listeners: Vec<JoinHandle<()>>,
    background: JoinSet<()>,
    pub secure_address: Option<SocketAddr>,
    pub insecure_address: Option<SocketAddr>,
    pub observability_address: Option<SocketAddr>,
}

/// Checks that the files which a configuration names can be used: certificates,
/// keys, authorities, kubeconfig. It connects to nobody and binds nothing, but
/// it runs an exec plugin of the kubeconfig.
pub async fn check(config: &Config, metrics: &Metrics) -> Result<(), StartError> {
    server_certificates(config)?;
    PreparedAccess::new(config)?;
    let settings = build::upstream(config, None).await?;
    Upstream::new(&settings, metrics.upstream.clone())?;
    build::aggregation(config, metrics)?;
    build::check_saved_stores(config)?;
    if let Some(audit) = &config.observability.audit {
        audit::check(audit).await?;
    }
    if let Some(file) = &config.observability.tracing_config_file {
        spans::check(file)?;
    }
    Ok(())
}

pub async fn upstream_settings(config: &Config) -> Result<Settings, StartError> {
    Ok(build::upstream(config, None).await?)
}

/// Prepares the backends of a configuration. Connects to none of them.
pub fn backends(config: &Config, metrics: &Metrics) -> Result<Prepared, StartError> {
    Ok(build::aggregation(config, metrics)?)
}

impl Apifront {
    /// Binds, connects and serves. Returns once requests are accepted. `demo` is the
    /// address of the API server of the demo, which runs if the configuration asks for
    /// it, and longer than this server.
    pub async fn start(
        live: Arc<LiveConfig>,
        metrics: Arc<Metrics>,
        demo: Option<SocketAddr>,
    ) -> Result<Self, StartError> {
        let config: Arc<Config> = live.load().clone();
        // A taken port is the commonest mistake, so ports come first.
        let listeners = Listeners::bind(&config)?;
        let reloader = first_generation::build(&live, config.clone(), metrics, demo).await?;
        let current = reloader.current.clone();
        let (certificates, clients) = (reloader.certificates.clone(), reloader.clients.clone());

        let generation = current.load_full();
        show_apis(&generation);
        let settings = &generation.settings;
        generation.cache.resume(&settings.cache, settings.as_ref());
        let background = background::start(reloader, live);
        preload(&generation);

        let (shutdown, stop) = watch::channel(false);
        Ok(Self {
            secure_address: listeners.secure.as_ref().map(|l| l.address),
            insecure_address: listeners.insecure.as_ref().map(|l| l.address),
            observability_address: listeners.observability.as_ref().map(|l| l.address),
            drain: generation.drain.clone(),
            health: generation.health.clone(),
            shutdown,
            listeners: listeners.serve(&config, &current, certificates, clients, &stop)?,
            background,
            current,
        })
    }

    /// Stops in order. Readiness fails at once. After `shutdownDelayDuration`,
    /// apifront accepts no more connections and ends its streams one after the other.
    /// Then the cache is saved, and open requests may end until `shutdownGracePeriod` is
    /// over. Returns the number of requests that were cut off.
    pub async fn stop(mut self) -> usize {
        let settings = self.current.load().settings.clone();
        self.health.shut_down();
        tracing::info!(delay = ?settings.shutdown_delay, "shutting down");
        tokio::time::sleep(settings.shutdown_delay).await;
        // Sending fails only if all listeners have ended already.
        let _stopped = self.shutdown.send(true);
        let grace = settings.shutdown_grace_period;
        let grace_ends = Instant::now().checked_add(grace);
        let over = self.drain.stop(grace.mul_f64(SHARE_OF_STREAMS));
        tracing::info!(?over, "ending streams");
        for listener in self.listeners.drain(..) {
            if let Err(error) = listener.await {
                tracing::warn!(%error, "listener ended badly");
            }
        }
        let _requests = self.drain.wait(over).await;
        // The streams have ended, so no client has seen more than what is saved now.
        let generation = self.current.load_full();
        let grace = grace_ends.map_or(grace, |ends| ends.saturating_duration_since(Instant::now()));
        let (cut_off, ()) = tokio::join!(
            self.drain.wait(grace),
            generation.cache.save(&generation.settings.cache, grace),
        );
        if cut_off > 0 {
            tracing::warn!(requests = cut_off, "cut off");
        }
        self.background.shutdown().await;
        tokio::join!(generation.audit.stop(), generation.tracing.stop());
        cut_off
    }
}
