//! The metrics of authorization, with kube-apiserver's names where it has them.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, Opts, Registry, exponential_buckets};

use crate::metrics::ByLabel;

const RESULTS: &[&str] = &["allowed", "denied", "no-opinion", "error"];
const SELF_REVIEWS: &[&str] = &["memory", "upstream", "view"];

#[derive(Clone, Debug)]
pub struct AuthzMetrics {
    attempts: ByLabel<IntCounter>,
    duration: ByLabel<Histogram>,
    review_cache: ByLabel<IntCounter>,
    cached_rbac: ByLabel<IntCounter>,
    refused: IntCounter,
    self_reviews: ByLabel<IntCounter>,
}

impl AuthzMetrics {
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let refused = IntCounter::new(
            "apifront_subject_access_reviews_refused_total",
            "Authorization questions answered 429 because too many of their user waited for their review.",
        )?;
        registry.register(Box::new(refused.clone()))?;
        let self_reviews = ByLabel::counters(
            registry,
            Opts::new(
                "apifront_self_subject_access_reviews_total",
                "SelfSubjectAccessReviews that were looked at, by the answer: upstream's own (upstream), a remembered one (memory), or yes because of a view (view).",
            ),
            "answer",
            SELF_REVIEWS,
        )?;
        for answer in SELF_REVIEWS {
            self_reviews.with(answer, |series| series.inc_by(0));
        }
        Ok(Self {
            attempts: ByLabel::counters(
                registry,
                Opts::new(
                    "authorization_attempts_total",
                    "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'.",
                ),
                "result",
                RESULTS,
            )?,
            duration: ByLabel::histograms(
                registry,
                HistogramOpts::new(
                    "authorization_duration_seconds",
                    "Authorization duration in seconds broken out by result.",
                )
                .buckets(exponential_buckets(0.001, 2.0, 15)?),
                "result",
                RESULTS,
            )?,
            review_cache: ByLabel::counters(
                registry,
                Opts::new(
                    "apifront_subject_access_review_cache_total",
                    "Authorization questions by whether their review was in the cache (hit) or had to be asked for (miss).",
                ),
                "result",
                &["hit", "miss"],
            )?,
            cached_rbac: ByLabel::counters(
                registry,
                Opts::new(
                    "apifront_cached_rbac_decisions_total",
                    "Authorization questions put to the RBAC objects in the cache: allowed without a review, or left to a review because they do not allow it (not-allowed), are not in memory or not proven recent (unknown), or have too many rules (too-many-rules).",
                ),
                "result",
                &["allowed", "not-allowed", "unknown", "too-many-rules"],
            )?,
            refused,
            self_reviews,
        })
    }

    /// Counts an attempt. `result` is one of allowed, denied, no-opinion and
    /// error.
    pub fn attempt(&self, result: &'static str, took: Duration) {
        self.attempts.with(result, IntCounter::inc);
        let seconds = took.as_secs_f64();
        self.duration.with(result, |series| series.observe(seconds));
    }

    pub fn review_cache(&self, hit: bool) {
        let result = if hit { "hit" } else { "miss" };
        self.review_cache.with(result, IntCounter::inc);
    }

    /// Counts a SelfSubjectAccessReview. `answer` is one of memory, upstream and view.
    pub fn self_review(&self, answer: &'static str) {
        self.self_reviews.with(answer, IntCounter::inc);
    }

    /// Counts a question that was put to the RBAC objects in the cache.
    pub fn cached_rbac(&self, result: &'static str) {
        self.cached_rbac.with(result, IntCounter::inc);
    }

    pub fn refused(&self) {
        self.refused.inc();
    }
}
