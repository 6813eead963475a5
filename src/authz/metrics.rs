//! The metrics of authorization, with kube-apiserver's names where it has them.

use std::time::Duration;

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry, exponential_buckets,
};

#[derive(Clone, Debug)]
pub struct AuthzMetrics {
    attempts: IntCounterVec,
    duration: HistogramVec,
    review_cache: IntCounterVec,
    cached_rbac: IntCounterVec,
    refused: IntCounter,
    self_reviews: IntCounterVec,
}

impl AuthzMetrics {
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            attempts: IntCounterVec::new(
                Opts::new(
                    "authorization_attempts_total",
                    "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'.",
                ),
                &["result"],
            )?,
            duration: HistogramVec::new(
                HistogramOpts::new(
                    "authorization_duration_seconds",
                    "Authorization duration in seconds broken out by result.",
                )
                .buckets(exponential_buckets(0.001, 2.0, 15)?),
                &["result"],
            )?,
            review_cache: IntCounterVec::new(
                Opts::new(
                    "apifront_subject_access_review_cache_total",
                    "Authorization questions by whether their review was in the cache (hit) or had to be asked for (miss).",
                ),
                &["result"],
            )?,
            cached_rbac: IntCounterVec::new(
                Opts::new(
                    "apifront_cached_rbac_decisions_total",
                    "Authorization questions put to the RBAC objects in the cache: allowed without a review, or left to a review because they do not allow it (not-allowed), are not in memory or not proven recent (unknown), or have too many rules (too-many-rules).",
                ),
                &["result"],
            )?,
            refused: IntCounter::new(
                "apifront_subject_access_reviews_refused_total",
                "Authorization questions answered 429 because too many of their user waited for their review.",
            )?,
            self_reviews: IntCounterVec::new(
                Opts::new(
                    "apifront_self_subject_access_reviews_total",
                    "SelfSubjectAccessReviews that were looked at, by the answer: upstream's own (upstream), a remembered one (memory), or yes because of a view (view).",
                ),
                &["answer"],
            )?,
        };
        for answer in ["memory", "upstream", "view"] {
            metrics.self_reviews.with_label_values(&[answer]).inc_by(0);
        }
        registry.register(Box::new(metrics.self_reviews.clone()))?;
        registry.register(Box::new(metrics.cached_rbac.clone()))?;
        registry.register(Box::new(metrics.refused.clone()))?;
        registry.register(Box::new(metrics.attempts.clone()))?;
        registry.register(Box::new(metrics.duration.clone()))?;
        registry.register(Box::new(metrics.review_cache.clone()))?;
        Ok(metrics)
    }

    /// Counts an attempt. `result` is one of allowed, denied, no-opinion and
    /// error.
    pub fn attempt(&self, result: &'static str, took: Duration) {
        self.attempts.with_label_values(&[result]).inc();
        self.duration
            .with_label_values(&[result])
            .observe(took.as_secs_f64());
    }

    pub fn review_cache(&self, hit: bool) {
        let result = if hit { "hit" } else { "miss" };
        self.review_cache.with_label_values(&[result]).inc();
    }

    /// Counts a SelfSubjectAccessReview. `answer` is one of memory, upstream and view.
    pub fn self_review(&self, answer: &'static str) {
        self.self_reviews.with_label_values(&[answer]).inc();
    }

    /// Counts a question that was put to the RBAC objects in the cache.
    pub fn cached_rbac(&self, result: &'static str) {
        self.cached_rbac.with_label_values(&[result]).inc();
    }

    pub fn refused(&self) {
        self.refused.inc();
    }
}
