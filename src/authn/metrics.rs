//! The metrics of authentication, under kube-apiserver's names where it has them.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, Opts, Registry, exponential_buckets};

use crate::metrics::ByLabel;

/// There is no `authenticated_user_requests` by user name, as kube-apiserver has it:
/// label values here come from fixed sets.
#[derive(Clone, Debug)]
pub struct AuthnMetrics {
    attempts: ByLabel<IntCounter>,
    duration: ByLabel<Histogram>,
    token_cache: ByLabel<IntCounter>,
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
    const ALL: &'static [&'static str] = &["success", "failure", "error"];

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
        let refused = IntCounter::new(
            "apifront_token_reviews_refused_total",
            "Bearer tokens answered 429 because too many from their address waited for their review.",
        )?;
        registry.register(Box::new(refused.clone()))?;
        Ok(Self {
            attempts: ByLabel::counters(
                registry,
                Opts::new(
                    "authentication_attempts",
                    "Counter of authenticated attempts.",
                ),
                "result",
                Attempt::ALL,
            )?,
            duration: ByLabel::histograms(
                registry,
                HistogramOpts::new(
                    "authentication_duration_seconds",
                    "Authentication duration in seconds broken out by result.",
                )
                .buckets(exponential_buckets(0.001, 2.0, 15)?),
                "result",
                Attempt::ALL,
            )?,
            token_cache: ByLabel::counters(
                registry,
                Opts::new(
                    "apifront_token_review_cache_total",
                    "Bearer tokens by whether their review was in the cache (hit) or had to be asked for (miss).",
                ),
                "result",
                &["hit", "miss"],
            )?,
            refused,
        })
    }

    pub fn attempt(&self, result: Attempt, took: Duration) {
        let result = result.as_str();
        self.attempts.with(result, IntCounter::inc);
        let seconds = took.as_secs_f64();
        self.duration.with(result, |series| series.observe(seconds));
    }

    pub fn token_cache(&self, hit: bool) {
        let result = if hit { "hit" } else { "miss" };
        self.token_cache.with(result, IntCounter::inc);
    }

    pub fn refused(&self) {
        self.refused.inc();
    }
}
