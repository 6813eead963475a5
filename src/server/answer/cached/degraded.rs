//! Answers reads in degraded mode from the last known state, and tells its age.

use std::time::{Duration, Instant};

use apifront_watch_cache::read::{BypassReason, Freshness, LastWrite};
use apifront_watch_cache::reflector::Entry;
use apifront_watch_cache::store::Store;
use http::HeaderValue;
use kubernetes_wire::api::duration::format_duration;
use kubernetes_wire::api::{GroupVersionResource, Status, warning};

use super::plan::Plan;
use crate::server::stage::{Granted, Identified, PendingGrant};

const ANNOTATION: &str = "apifront.dev/degraded";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Degraded {
    /// The time since the state was last known to be the same as upstream.
    pub(super) age: Duration,
}

#[derive(Debug)]
pub(super) enum Mode {
    /// The read is answered as usual.
    Off,
    On(Degraded),
    /// The state is too old, and this is the answer.
    TooOld(Status),
}

/// Decides whether a read is answered in degraded mode. It is not, unless its grant
/// was given in degraded mode.
pub(super) fn mode(granted: &Granted, entry: &Entry, store: &Store, plan: &Plan) -> Mode {
    let Some(bounds) = granted.degraded() else {
        return Mode::Off;
    };
    let generation = granted.generation();
    let now = Instant::now();
    let wrote = generation.own_writes.wrote(granted.user(), &entry.gvr, now);
    let has_own_writes = match wrote {
        LastWrite::Nothing => true,
        LastWrite::Version(version) => store.progress().resource_version >= version,
        LastWrite::Unknown => false,
    };
    let age = entry
        .freshness()
        .proven_at()
        .map(|at| now.saturating_duration_since(at));
    decide(
        age,
        has_own_writes,
        bounds.max_age,
        plan.freshness(),
        &entry.gvr,
    )
}

fn decide(
    age: Option<Duration>,
    has_own_writes: bool,
    max_age: Duration,
    freshness: Freshness,
    gvr: &GroupVersionResource,
) -> Mode {
    match (age, freshness) {
        (Some(age), Freshness::MostRecent) if age < max_age && !has_own_writes => Mode::Off,
        (Some(age), _) if age < max_age => Mode::On(Degraded { age }),
        (age, Freshness::MostRecent) => Mode::TooOld(too_old(age, max_age, gvr)),
        // As without degraded mode, other reads are answered for
        // `cache.maxStaleness`.
        (_, Freshness::Any | Freshness::NotOlderThan(_)) => Mode::Off,
    }
}

fn too_old(age: Option<Duration>, max_age: Duration, gvr: &GroupVersionResource) -> Status {
    let resource = gvr.group_resource();
    let state = match age {
        Some(age) => format!("were last known {} ago", seconds(age)),
        None => "are not known".to_owned(),
    };
    Status::service_unavailable(format!(
        "no API server can be reached, and {resource} {state}; \
         the configuration allows {}",
        format_duration(max_age)
    ))
    .retry_soon()
}

impl Degraded {
    pub(super) fn warning(self, gvr: &GroupVersionResource) -> Option<HeaderValue> {
        let (resource, age) = (gvr.group_resource(), seconds(self.age));
        warning::header(&format!(
            "no API server can be reached: {resource} are shown as they were {age} ago"
        ))
    }

    pub(super) fn note(self, granted: &Granted, grant: &mut PendingGrant<'_>) {
        let Some(bounds) = granted.degraded() else {
            return;
        };
        let (generation, info) = (granted.generation(), granted.info());
        let metrics = generation.outage.metrics();
        metrics.answered(&info.gvr, &info.verb);
        let by = bounds.authorization.as_str();
        let age = seconds(self.age);
        grant.annotate(ANNOTATION, format!("age={age} authorization={by}"));
    }
}

/// Returns the warning for a 403 in degraded mode.
pub(super) fn refusal_warning(status: &Status, identified: &Identified) -> Vec<HeaderValue> {
    let is_ours = status.code == 403 && identified.degraded().is_some();
    let text = "no API server can be reached: rights are those that were known before";
    let warning = is_ours.then(|| warning::header(text)).flatten();
    warning.into_iter().collect()
}

/// Replaces the demand for the most recent state by one that the store can meet.
pub(super) fn relaxed(freshness: Freshness) -> Freshness {
    match freshness {
        Freshness::MostRecent => Freshness::Any,
        other => other,
    }
}

/// Returns the answer to a request that would otherwise be forwarded.
pub(super) fn unreachable(reason: BypassReason) -> Status {
    Status::service_unavailable(format!(
        "no API server can be reached, and memory cannot answer this ({})",
        reason.as_str()
    ))
    .retry_soon()
}

fn seconds(age: Duration) -> String {
    format!("{}s", age.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_recent_enough_is_answered() {
        let pods = GroupVersionResource::new("", "v1", "pods");
        let max_age = Duration::from_secs(600);
        let shown = |age: Option<u64>, own, freshness| {
            let age = age.map(Duration::from_secs);
            match decide(age, own, max_age, freshness, &pods) {
                Mode::Off => "off".to_owned(),
                Mode::On(degraded) => seconds(degraded.age),
                Mode::TooOld(status) => status.message.clone(),
            }
        };
        use Freshness::{Any, MostRecent, NotOlderThan};
        let too_old = "no API server can be reached, and pods were last known 600s ago; \
                       the configuration allows 10m0s";
        let unknown = "no API server can be reached, and pods are not known; \
                       the configuration allows 10m0s";
        for (age, own, freshness, expected) in [
            (Some(42), true, MostRecent, "42s"),
            (Some(42), true, Any, "42s"),
            (Some(42), true, NotOlderThan(7), "42s"),
            // The caller's own write is not in memory.
            (Some(42), false, MostRecent, "off"),
            (Some(42), false, Any, "42s"),
            (Some(600), true, MostRecent, too_old),
            (Some(600), true, Any, "off"),
            (None, true, MostRecent, unknown),
            (None, true, NotOlderThan(7), "off"),
        ] {
            assert_eq!(
                shown(age, own, freshness),
                expected,
                "{age:?} {freshness:?}"
            );
        }
    }

    #[test]
    fn the_warning_has_the_form_that_clients_know() {
        let degraded = Degraded {
            age: Duration::from_millis(42_900),
        };
        let gvr = GroupVersionResource::new("apps", "v1", "deployments");
        assert_eq!(
            degraded.warning(&gvr).unwrap(),
            "299 - \"no API server can be reached: deployments.apps are shown as they were 42s ago\""
        );
    }
}
