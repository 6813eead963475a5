//! The configuration in force, and its replacement while running.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use prometheus::{IntCounterVec, IntGauge, Opts, Registry};
use tokio::sync::watch;

use super::{Config, ConfigErrors, Source, restart_required};

#[derive(Clone)]
pub struct ReloadMetrics {
    reloads: IntCounterVec,
    last_successful: IntGauge,
}

impl ReloadMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let reloads = IntCounterVec::new(
            Opts::new(
                "apifront_config_reloads_total",
                "Configuration reloads by result: success or failure.",
            ),
            &["result"],
        )?;
        let last_successful = IntGauge::new(
            "apifront_config_last_reload_successful",
            "Whether the last reload of the configuration was successful.",
        )?;
        registry.register(Box::new(reloads.clone()))?;
        registry.register(Box::new(last_successful.clone()))?;
        for result in ["success", "failure"] {
            reloads.with_label_values(&[result]);
        }
        last_successful.set(1);
        Ok(Self {
            reloads,
            last_successful,
        })
    }

    fn observe(&self, success: bool) {
        let result = if success { "success" } else { "failure" };
        self.reloads.with_label_values(&[result]).inc();
        self.last_successful.set(success.into());
    }
}

pub struct LiveConfig {
    current: ArcSwap<Config>,
    last_error: Mutex<Option<String>>,
    generation: watch::Sender<u64>,
    metrics: ReloadMetrics,
}

impl LiveConfig {
    pub fn new(config: Config, metrics: ReloadMetrics) -> Arc<Self> {
        Arc::new(Self {
            current: ArcSwap::from_pointee(config),
            last_error: Mutex::new(None),
            generation: watch::Sender::new(0),
            metrics,
        })
    }

    /// Returns the current configuration. This is cheap; take it once per
    /// request.
    pub fn load(&self) -> Guard<Arc<Config>> {
        self.current.load()
    }

    /// Notes that a configuration was read but could not be applied.
    pub fn report_error(&self, error: String) {
        *self.last_error.lock() = Some(error);
        self.metrics.observe(false);
    }

    /// Returns a receiver of the number of reloads. It also changes when only a file
    /// that the configuration names, such as a certificate, has changed.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    /// Returns the reason why the file on disk is not in force. `None` if it is in
    /// force.
    pub fn last_error(&self) -> Option<String> {
        self.last_error.lock().clone()
    }

    /// Reads the source again and puts the result in force. A bad file changes
    /// nothing but `last_error`. Returns the fields whose change waits for a
    /// restart.
    pub fn reload(&self, source: &Source) -> Result<Vec<&'static str>, ConfigErrors> {
        let new = match source.load() {
            Ok(new) => new,
            Err(errors) => {
                tracing::error!(
                    errors = errors.to_string().replace('\n', "; "),
                    "configuration not reloaded, the running one stays"
                );
                *self.last_error.lock() = Some(errors.to_string());
                self.metrics.observe(false);
                return Err(errors);
            }
        };
        let old = self.current.swap(Arc::new(new));
        let restart = restart_required(&old, &self.current.load());
        if !restart.is_empty() {
            tracing::warn!(
                fields = restart.join(", "),
                "configuration reloaded; these fields take effect after a restart"
            );
        } else {
            tracing::info!("configuration reloaded");
        }
        *self.last_error.lock() = None;
        self.metrics.observe(true);
        self.generation.send_modify(|n| *n = n.wrapping_add(1));
        Ok(restart)
    }
}
