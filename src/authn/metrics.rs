//! The metrics of authentication, under kube-apiserver's names where it has them.

use std::time::Duration;

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry, exponential_buckets,
};

/// There is no `authenticated_user_requests` by user name, as kube-apiserver has it:
/// label values here come from fixed sets.
#[derive(Clone, Debug)]
pub struct AuthnMetrics {
    attempts: IntCounterVec,
    duration: HistogramVec,
    token_cache: IntCounterVec,
    refused: IntCounter,
}

/// The result of an attempt: `failure` found no credentials, `error` found bad
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    Success,
    Failure,
    Error,
}

impl Attempt {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Error => "error",
        }
    }
}

impl AuthnMetrics {
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let metrics = Self {
            attempts: IntCounterVec::new(
                Opts::new(
                    "authentication_attempts",
                    "Counter of authenticated attempts.",
                ),
                &["result"],
            )?,
            duration: HistogramVec::new(
                HistogramOpts::new(
                    "authentication_duration_seconds",
                    "Authentication duration in seconds broken out by result.",
                )
                .buckets(exponential_buckets(0.001, 2.0, 15)?),
                &["result"],
            )?,
            token_cache: IntCounterVec::new(
                Opts::new(
                    "apifront_token_review_cache_total",
                    "Bearer tokens by whether their review was in the cache (hit) or had to be asked for (miss).",
                ),
                &["result"],
            )?,
            refused: IntCounter::new(
                "apifront_token_reviews_refused_total",
                "Bearer tokens answered 429 because too many from their address waited for their review.",
            )?,
        };
        registry.register(Box::new(metrics.refused.clone()))?;
        registry.register(Box::new(metrics.attempts.clone()))?;
        registry.register(Box::new(metrics.duration.clone()))?;
        registry.register(Box::new(metrics.token_cache.clone()))?;
        Ok(metrics)
    }

    pub fn attempt(&self, result: Attempt, took: Duration) {
        let label = &[result.as_str()];
        self.attempts.with_label_values(label).inc();
        self.duration
            .with_label_values(label)
            .observe(took.as_secs_f64());
    }

    pub fn token_cache(&self, hit: bool) {
        let result = if hit { "hit" } else { "miss" };
        self.token_cache.with_label_values(&[result]).inc();
    }

    pub fn refused(&self) {
        self.refused.inc();
    }
}
