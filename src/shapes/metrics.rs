//! The metrics of the rules.

use std::collections::HashMap;
use std::sync::Arc;

use apifront_watch_cache::LeftOut;
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

#[derive(Clone)]
pub struct ShapeMetrics {
    answers: IntCounterVec,
    left_out: LeftOutBytes,
}

/// The counters of one rule.
pub(super) struct RuleCounters {
    pub(super) shaped: IntCounter,
    pub(super) whole: IntCounter,
    pub(super) left_out: LeftOut,
}

impl ShapeMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let answers = IntCounterVec::new(
            Opts::new(
                "apifront_shape_answers_total",
                "Reads that a rule of `shapes` names, by the shape of the answer: without_managed_fields, or whole if the read was forwarded. A watch counts once.",
            ),
            &["rule", "shape"],
        )?;
        registry.register(Box::new(answers.clone()))?;
        let left_out = LeftOutBytes {
            by_rule: Arc::default(),
            shown: IntCounterVec::new(
                Opts::new(
                    "apifront_shape_left_out_bytes_total",
                    "Bytes of managedFields that answers and watch events lacked, before they were compressed, by rule of `shapes`; an empty rule is clients that asked for it.",
                ),
                &["rule"],
            )?,
        };
        registry.register(Box::new(left_out.clone()))?;
        Ok(Self { answers, left_out })
    }

    pub(super) fn asked_for(&self) -> LeftOut {
        self.left_out.of_rule("")
    }

    pub(super) fn of_rule(&self, name: &str) -> RuleCounters {
        let answers = |shape| self.answers.with_label_values(&[name, shape]);
        RuleCounters {
            shaped: answers("without_managed_fields"),
            whole: answers("whole"),
            left_out: self.left_out.of_rule(name),
        }
    }
}

/// Shows the bytes that the cache counts.
#[derive(Clone)]
struct LeftOutBytes {
    by_rule: Arc<Mutex<HashMap<String, LeftOut>>>,
    shown: IntCounterVec,
}

impl LeftOutBytes {
    fn of_rule(&self, name: &str) -> LeftOut {
        let mut by_rule = self.by_rule.lock();
        by_rule.entry(name.to_owned()).or_default().clone()
    }
}

impl Collector for LeftOutBytes {
    fn desc(&self) -> Vec<&Desc> {
        self.shown.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Only one collection at a time adds what came since the last one.
        let by_rule = self.by_rule.lock();
        for (name, left_out) in by_rule.iter() {
            let shown = self.shown.with_label_values(&[name]);
            shown.inc_by(left_out.bytes().saturating_sub(shown.get()));
        }
        self.shown.collect()
    }
}
