//! The metrics of APIServices' availability, under kube-aggregator's names.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

/// Label values are names of configured APIServices.
#[derive(Clone)]
pub struct AvailabilityMetrics {
    unavailable: IntGaugeVec,
    became_unavailable: IntCounterVec,
    /// The number of running check tasks of each name. At a reload the next one
    /// begins before the last has ended.
    watched: Arc<Mutex<HashMap<String, usize>>>,
}

impl AvailabilityMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            unavailable: IntGaugeVec::new(
                Opts::new(
                    "aggregator_unavailable_apiservice",
                    "Gauge of APIServices which are marked as unavailable broken down by APIService name.",
                ),
                &["name"],
            )?,
            became_unavailable: IntCounterVec::new(
                Opts::new(
                    "aggregator_unavailable_apiservice_total",
                    "Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
                ),
                &["name", "reason"],
            )?,
            watched: Arc::default(),
        };
        registry.register(Box::new(metrics.unavailable.clone()))?;
        registry.register(Box::new(metrics.became_unavailable.clone()))?;
        Ok(metrics)
    }

    pub(super) fn enter(&self, name: &str) {
        let mut watched = self.watched.lock();
        let count = watched.entry(name.to_owned()).or_insert(0);
        *count = count.saturating_add(1);
    }

    /// Notes that a check task has ended. The last one of a name removes its series.
    pub(super) fn leave(&self, name: &str) {
        let mut watched = self.watched.lock();
        let Some(count) = watched.get_mut(name) else {
            return;
        };
        *count = count.saturating_sub(1);
        if *count == 0 {
            watched.remove(name);
            // There is no series if no check was completed.
            let _ = self.unavailable.remove_label_values(&[name]);
        }
    }

    pub(super) fn set(&self, name: &str, available: bool) {
        self.unavailable
            .with_label_values(&[name])
            .set((!available).into());
    }

    /// Counts an APIService that was available and is no longer.
    pub(super) fn lost(&self, name: &str, reason: &'static str) {
        self.became_unavailable
            .with_label_values(&[name, reason])
            .inc();
    }
}
