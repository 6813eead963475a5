//! The stability of metrics, as Kubernetes' help texts name it: the class, and the
//! release since which a metric is deprecated. A deprecated metric is hidden some
//! releases later, and then removed (KEP-1209; component-base `metrics`).

use std::fmt;

use prometheus::proto::MetricFamily;

/// The release of Kubernetes, as (major, minor), to which these metrics belong.
pub const KUBERNETES: (u32, u32) = (1, 37);

/// How long a metric stays unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// The metric may change or go at any time.
    Alpha,
    /// Nothing in the metric is removed without one release of notice.
    Beta,
    /// Neither the metric's name nor its type nor a label is removed without
    /// three releases of notice.
    Stable,
}

impl fmt::Display for Stability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Stable => "STABLE",
        })
    }
}

impl Stability {
    /// Returns the number of releases for which a deprecated metric is still shown.
    fn notice(self) -> u32 {
        match self {
            Self::Alpha => 0,
            Self::Beta => 1,
            Self::Stable => 3,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricStability {
    pub stability: Stability,
    /// The release since which the metric is deprecated, as (major, minor).
    pub deprecated: Option<(u32, u32)>,
}

impl MetricStability {
    /// The least promise, for metrics that Kubernetes does not promise.
    const LEAST: Self = Self::new(Stability::Alpha);

    const fn new(stability: Stability) -> Self {
        Self {
            stability,
            deprecated: None,
        }
    }

    fn of_metric(name: &str) -> Self {
        let found = PROMISES.iter().find(|(known, _)| *known == name);
        found.map_or(Self::LEAST, |(_, promise)| *promise)
    }

    /// Tells whether Kubernetes gives the metric no stability. Client libraries
    /// count these for every process.
    fn is_without(name: &str) -> bool {
        name.starts_with("process_")
    }

    /// Tells whether a server of this release hides the metric by default.
    fn is_hidden_in(self, (major, minor): (u32, u32)) -> bool {
        self.deprecated.is_some_and(|(since, deprecated)| {
            since < major
                || since == major && deprecated.saturating_add(self.stability.notice()) <= minor
        })
    }

    fn is_deprecated_in(self, release: (u32, u32)) -> bool {
        self.deprecated.is_some_and(|since| since <= release)
    }

    /// Returns the help text, preceded by the stability.
    fn help(self, text: &str, release: (u32, u32)) -> String {
        let class = self.stability;
        match self.deprecated {
            Some((major, minor)) if self.is_deprecated_in(release) => {
                format!("[{class}] (Deprecated since {major}.{minor}.0) {text}")
            }
            _ => format!("[{class}] {text}"),
        }
    }
}

/// kube-apiserver's stability for metrics with its names and meanings. Every other
/// metric is alpha.
const PROMISES: &[(&str, MetricStability)] = &[
    ("apiserver_current_inflight_requests", STABLE),
    ("apiserver_longrunning_requests", STABLE),
    ("apiserver_request_duration_seconds", STABLE),
    ("apiserver_request_total", STABLE),
    ("apiserver_requested_deprecated_apis", STABLE),
    ("apiserver_response_sizes", STABLE),
    ("apiserver_flowcontrol_current_executing_requests", BETA),
    ("apiserver_flowcontrol_current_executing_seats", BETA),
    ("apiserver_flowcontrol_current_inqueue_requests", BETA),
    ("apiserver_flowcontrol_dispatched_requests_total", BETA),
    ("apiserver_flowcontrol_nominal_limit_seats", BETA),
    ("apiserver_flowcontrol_rejected_requests_total", BETA),
    ("apiserver_flowcontrol_request_wait_duration_seconds", BETA),
    ("apiserver_watch_events_sizes", BETA),
    ("apiserver_watch_events_total", BETA),
    ("apiserver_watch_list_duration_seconds", BETA),
    (
        "apiserver_flowcontrol_request_concurrency_in_use",
        MetricStability {
            stability: Stability::Alpha,
            deprecated: Some((1, 31)),
        },
    ),
];

/// Metrics of an experimental kind in kube-apiserver: histograms over every moment.
const EXPERIMENTAL: [&str; 3] = [
    "apiserver_flowcontrol_demand_seats",
    "apiserver_flowcontrol_priority_level_request_utilization",
    "apiserver_flowcontrol_priority_level_seat_utilization",
];

const STABLE: MetricStability = MetricStability::new(Stability::Stable);
const BETA: MetricStability = MetricStability::new(Stability::Beta);

/// Writes the stability into help texts. Leaves out hidden metrics unless
/// `show_hidden`.
pub(super) fn present(families: Vec<MetricFamily>, show_hidden: bool) -> Vec<MetricFamily> {
    families
        .into_iter()
        .filter_map(|mut family| {
            if MetricStability::is_without(family.name()) {
                return Some(family);
            }
            let promise = MetricStability::of_metric(family.name());
            if promise.is_hidden_in(KUBERNETES) && !show_hidden {
                return None;
            }
            let help = promise.help(family.help(), KUBERNETES);
            let help = match EXPERIMENTAL.contains(&family.name()) {
                true => format!("EXPERIMENTAL: {help}"),
                false => help,
            };
            family.set_help(help);
            Some(family)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deprecated_metrics_are_hidden_after_their_notice() {
        use Stability::{Alpha, Beta, Stable};
        for (stability, deprecated, release, is_deprecated, is_hidden) in [
            (Stable, (1, 30), (1, 29), false, false),
            (Stable, (1, 30), (1, 30), true, false),
            (Stable, (1, 30), (1, 32), true, false),
            (Stable, (1, 30), (1, 33), true, true),
            (Beta, (1, 30), (1, 30), true, false),
            (Beta, (1, 30), (1, 31), true, true),
            (Alpha, (1, 30), (1, 29), false, false),
            (Alpha, (1, 30), (1, 30), true, true),
            (Stable, (1, 30), (2, 0), true, true),
            (Alpha, (2, 0), (1, 99), false, false),
        ] {
            let promise = MetricStability {
                stability,
                deprecated: Some(deprecated),
            };
            let found = (
                promise.is_deprecated_in(release),
                promise.is_hidden_in(release),
            );
            let expected = (is_deprecated, is_hidden);
            assert_eq!(found, expected, "{stability} {deprecated:?} {release:?}");
        }
        assert!(!MetricStability::LEAST.is_hidden_in(KUBERNETES));
    }

    #[test]
    fn help_texts_begin_with_the_promise() {
        let hidden = MetricStability::of_metric("apiserver_flowcontrol_request_concurrency_in_use");
        for (promise, expected) in [
            (
                MetricStability::of_metric("apiserver_request_total"),
                "[STABLE] Text.",
            ),
            (
                MetricStability::of_metric("apiserver_watch_events_total"),
                "[BETA] Text.",
            ),
            (
                MetricStability::of_metric("apifront_watchers"),
                "[ALPHA] Text.",
            ),
            (hidden, "[ALPHA] (Deprecated since 1.31.0) Text."),
        ] {
            assert_eq!(promise.help("Text.", KUBERNETES), expected);
        }
    }

    /// `APIFRONT_WRITE_DOCS=1` writes the reference again.
    #[test]
    fn the_reference_is_current() {
        let file = "docs/metrics.md";
        let written = std::fs::read_to_string(file).unwrap();
        let lines = written.lines().map(|line| {
            let Some(rest) = line.strip_prefix("| `") else {
                return line.to_owned();
            };
            let name = rest.split('`').next().unwrap_or_default();
            let MetricStability {
                stability,
                deprecated,
            } = MetricStability::of_metric(name);
            let mut class = stability.to_string();
            if let Some((major, minor)) = deprecated {
                class += &format!(", deprecated since {major}.{minor}");
            }
            let class = match MetricStability::is_without(name) {
                true => " ".to_owned(),
                false => format!(" {class} "),
            };
            let mut cells: Vec<&str> = line.split('|').collect();
            cells[3] = &class;
            cells.join("|")
        });
        let current: String = lines.map(|line| line + "\n").collect();
        if std::env::var_os("APIFRONT_WRITE_DOCS").is_some() {
            std::fs::write(file, &current).unwrap();
            return;
        }
        for (current, written) in current.lines().zip(written.lines()) {
            assert_eq!(current, written, "APIFRONT_WRITE_DOCS=1 writes it anew");
        }
    }
}
