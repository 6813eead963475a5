//! The metrics of views.

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

/// The reason why a caller got no view although they may have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The caller may see nothing.
    Nothing,
    TooManyViews,
    TooManyGrants,
    /// The caller's rights are not known now.
    Unavailable,
    /// The cache cannot answer this request, or not now.
    NotAnswerable,
}

impl Refusal {
    const ALL: [Self; 5] = [
        Self::Nothing,
        Self::TooManyViews,
        Self::TooManyGrants,
        Self::Unavailable,
        Self::NotAnswerable,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "nothing_visible",
            Self::TooManyViews => "too_many_views",
            Self::TooManyGrants => "too_many_grants",
            Self::Unavailable => "unavailable",
            Self::NotAnswerable => "not_answerable",
        }
    }
}

#[derive(Clone)]
pub struct ViewsMetrics {
    views: IntGauge,
    watched: IntGauge,
    answers: IntCounterVec,
    refused: IntCounterVec,
    transitions: IntCounterVec,
    reviews: IntCounterVec,
}

impl ViewsMetrics {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str, label: &str| {
            let counter = IntCounterVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let metrics = Self {
            views: gauge(
                "apifront_views",
                "Views that are kept: one for each user, resource and verb.",
            )?,
            watched: gauge("apifront_views_watched", "Views that somebody watches now.")?,
            answers: counter(
                "apifront_views_answers_total",
                "Lists and starts of watches that were answered with a view.",
                "verb",
            )?,
            refused: counter(
                "apifront_views_refused_total",
                "Requests of callers who may have views that were answered without one.",
                "reason",
            )?,
            transitions: counter(
                "apifront_views_transitions_total",
                "Namespaces and names that a view gained or lost after its first answer.",
                "change",
            )?,
            reviews: counter(
                "apifront_views_reviews_total",
                "Questions about a namespace or name of a view. A remembered answer did not reach upstream.",
                "result",
            )?,
        };
        for verb in ["list", "watch"] {
            metrics.answers.with_label_values(&[verb]).inc_by(0);
        }
        for reason in Refusal::ALL {
            metrics
                .refused
                .with_label_values(&[reason.as_str()])
                .inc_by(0);
        }
        for change in ["gained", "lost"] {
            metrics.transitions.with_label_values(&[change]).inc_by(0);
        }
        for result in ["allowed", "denied", "error", "remembered"] {
            metrics.reviews.with_label_values(&[result]).inc_by(0);
        }
        Ok(metrics)
    }

    pub(super) fn counted(&self, views: usize, watched: usize) {
        self.views.set(i64::try_from(views).unwrap_or(i64::MAX));
        self.watched.set(i64::try_from(watched).unwrap_or(i64::MAX));
    }

    pub fn answered(&self, verb: &str) {
        self.answers.with_label_values(&[verb]).inc();
    }

    pub fn refused(&self, reason: Refusal) {
        self.refused.with_label_values(&[reason.as_str()]).inc();
    }

    pub(super) fn changed(&self, gained: usize, lost: usize) {
        for (change, count) in [("gained", gained), ("lost", lost)] {
            let count = u64::try_from(count).unwrap_or(u64::MAX);
            self.transitions.with_label_values(&[change]).inc_by(count);
        }
    }

    pub(super) fn reviewed(&self, result: &'static str) {
        self.reviews.with_label_values(&[result]).inc();
    }
}
