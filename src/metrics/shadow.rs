//! The metrics of shadow mode.

use std::sync::Arc;
use std::time::Duration;

use prometheus::{
    Counter, CounterVec, IntCounter, IntCounterVec, Registry, register_counter_vec_with_registry,
    register_int_counter_vec_with_registry,
};

use kubernetes_wire::api::GroupVersionResource;

use super::KnownNames;

#[derive(Clone)]
pub struct ShadowMetrics {
    known: Arc<KnownNames>,
    reads: IntCounterVec,
    comparisons: IntCounterVec,
    not_comparable: IntCounterVec,
    upstream: Counter,
    apifront: Counter,
    bytes: IntCounter,
    withdrawn: IntCounter,
}

impl ShadowMetrics {
    pub fn register(registry: &Registry, known: Arc<KnownNames>) -> prometheus::Result<Self> {
        let seconds: CounterVec = register_counter_vec_with_registry!(
            "apifront_shadow_answer_seconds_total",
            "Time that compared answers took, by who made them: upstream until its answer began.",
            &["server"],
            registry
        )?;
        let bytes = IntCounter::new(
            "apifront_shadow_answer_bytes_total",
            "Bytes of upstream's answers that were compared.",
        )?;
        registry.register(Box::new(bytes.clone()))?;
        let withdrawn = IntCounter::new(
            "apifront_shadow_withdrawn_claims_total",
            "Group versions named in cache.aggregated whose server was seen to show callers different things.",
        )?;
        registry.register(Box::new(withdrawn.clone()))?;
        Ok(Self {
            known,
            reads: register_int_counter_vec_with_registry!(
                "apifront_shadow_reads_total",
                "Sampled reads in shadow mode, by what the cache would have done.",
                &["result", "reason"],
                registry
            )?,
            comparisons: register_int_counter_vec_with_registry!(
                "apifront_shadow_comparisons_total",
                "Comparisons of upstream's answer with the one from memory; of a watch, of each event.",
                &[
                    "group",
                    "version",
                    "resource",
                    "verb",
                    "representation",
                    "result"
                ],
                registry
            )?,
            not_comparable: register_int_counter_vec_with_registry!(
                "apifront_shadow_not_comparable_total",
                "Answers that could not be put at one version, by reason.",
                &["reason"],
                registry
            )?,
            upstream: seconds.with_label_values(&["upstream"]),
            apifront: seconds.with_label_values(&["apifront"]),
            bytes,
            withdrawn,
        })
    }

    pub fn withdrawn(&self) {
        self.withdrawn.inc();
    }

    /// Counts a read that the cache would have answered, or would have forwarded for
    /// the reason `bypass`.
    pub fn would(&self, bypass: Option<&'static str>) {
        let labels = match bypass {
            None => ["hit", ""],
            Some(reason) => ["bypass", reason],
        };
        self.reads.with_label_values(&labels).inc();
    }

    /// `not_comparable` is the reason why nothing was compared.
    pub fn compared(
        &self,
        gvr: &GroupVersionResource,
        [verb, representation, result]: [&'static str; 3],
        not_comparable: Option<&'static str>,
    ) {
        if let Some(why) = not_comparable {
            self.not_comparable.with_label_values(&[why]).inc();
        }
        // Only names that an answer proved are labels.
        let name = self.known.find(gvr, "");
        let (group, version, resource) = name.as_ref().map_or(("", "", ""), |name| {
            let gvr = name.gvr();
            (&*gvr.group, &*gvr.version, &*gvr.resource)
        });
        let labels = [group, version, resource, verb, representation, result];
        self.comparisons.with_label_values(&labels).inc();
    }

    pub fn cost(&self, upstream: Duration, here: Duration, bytes: u64) {
        self.upstream.inc_by(upstream.as_secs_f64());
        self.apifront.inc_by(here.as_secs_f64());
        self.bytes.inc_by(bytes);
    }
}
