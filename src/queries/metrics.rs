//! The metrics of queries.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, Opts, Registry};

#[derive(Clone)]
pub struct QueryMetrics {
    queries: IntCounterVec,
    seconds: Histogram,
    spent: IntCounter,
}

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Answered,
    /// The query is wrong, its caller may not ask it, or it costs too much.
    Refused,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Refused => "refused",
        }
    }
}

impl QueryMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let queries = IntCounterVec::new(
            Opts::new(
                "apifront_queries_total",
                "Queries, by outcome: answered, or refused because they are wrong, not allowed, or cost too much.",
            ),
            &["outcome"],
        )?;
        registry.register(Box::new(queries.clone()))?;
        let seconds = Histogram::with_opts(
            HistogramOpts::new(
                "apifront_query_duration_seconds",
                "Time from the authorization of a query to its answer, with the time for which it waited for its turn.",
            )
            .buckets(vec![0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0]),
        )?;
        registry.register(Box::new(seconds.clone()))?;
        let spent = IntCounter::new(
            "apifront_query_cost_total",
            "What the evaluation of expressions in queries cost, in the units of their limit.",
        )?;
        registry.register(Box::new(spent.clone()))?;
        Ok(Self {
            queries,
            seconds,
            spent,
        })
    }

    /// Returns the number of queries that ended so.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.queries.with_label_values(&[outcome.as_str()]).get()
    }

    pub fn ended(&self, outcome: Outcome, after: Duration) {
        self.queries.with_label_values(&[outcome.as_str()]).inc();
        self.seconds.observe(after.as_secs_f64());
    }

    /// Counts what the expressions of a query cost.
    pub fn evaluated(&self, spent: u64) {
        self.spent.inc_by(spent);
    }
}
