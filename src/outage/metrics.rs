//! The metrics of degraded mode.

use std::sync::Arc;

use kubernetes_wire::api::GroupVersionResource;
use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

use crate::metrics::KnownNames;

#[derive(Clone)]
pub struct OutageMetrics {
    degraded: IntGauge,
    answers: IntCounterVec,
    known: Arc<KnownNames>,
}

impl OutageMetrics {
    pub fn register(registry: &Registry, known: Arc<KnownNames>) -> prometheus::Result<Self> {
        let degraded = IntGauge::new(
            "apifront_degraded",
            "1 while no API server can be reached and the reads of cache.degraded are answered from the last known state.",
        )?;
        let answers = IntCounterVec::new(
            Opts::new(
                "apifront_degraded_answers_total",
                "Reads that were answered in degraded mode.",
            ),
            &["group", "version", "resource", "verb"],
        )?;
        registry.register(Box::new(degraded.clone()))?;
        registry.register(Box::new(answers.clone()))?;
        Ok(Self {
            degraded,
            answers,
            known,
        })
    }

    pub(super) fn degraded(&self, is: bool) {
        self.degraded.set(is.into());
    }

    /// Counts an answer. `verb` is get, list or watch. The store of the answer
    /// proves the resource's name.
    pub fn answered(&self, gvr: &GroupVersionResource, verb: &str) {
        if self.known.prove(gvr, "").is_some() {
            let labels = [&*gvr.group, &*gvr.version, &*gvr.resource, verb];
            self.answers.with_label_values(&labels).inc();
        }
    }
}
