//! `flow`: the order of the requests in flight, and the limits of forwarded
//! ones.

use std::time::Duration;

use apifront_watch_cache::ResourcePattern;

use super::check::Check;
use super::raw;
use crate::flow::{FlowSettings, InFlightLimits, flow_schemas, priority_levels};

/// The highest limit. There are never more requests in flight.
const MAX_INFLIGHT: usize = 1 << 20;

/// The time for which a request without a timeout waits: a quarter of
/// kube-apiserver's default `--request-timeout`, as in kube-apiserver.
const QUEUE_WAIT: Duration = Duration::from_secs(15);

/// The default limit of forwarded requests that wait for upstream. Each holds some
/// 50 KB here, so together they hold 200 MB. An API server with default limits
/// executes 600 requests, and the others wait in its queues.
const FORWARDED_LIMIT: usize = 4_000;

/// The default limit for one user: a quarter of all. While at most three users are
/// at their limits, a slow API server costs the other users nothing.
const USER_FORWARDED_LIMIT: usize = 1_000;

/// The default limit of forwarded requests that stay open. A request that cannot
/// share a connection has its own, and Linux has 28,000 ports for connections to one
/// address. The limit is well below that.
const LONG_RUNNING_LIMIT: usize = 10_000;

/// The default limit for one user: a tenth of all. Ten users at their limits leave
/// nothing to others; one or two do.
const USER_LONG_RUNNING_LIMIT: usize = 1_000;

pub(super) fn check(raw: &raw::Flow, in_flight: InFlightLimits, check: &mut Check) -> FlowSettings {
    let settings = FlowSettings {
        in_flight,
        enable_priority_and_fairness: raw.enable_priority_and_fairness.unwrap_or(true),
        queue_wait: check.duration("flow.queueWait", &raw.queue_wait, QUEUE_WAIT),
        forwarded_limit: check.count(
            "flow.forwardedLimit",
            raw.forwarded_limit,
            FORWARDED_LIMIT,
            0..=MAX_INFLIGHT,
        ),
        user_forwarded_limit: check.count(
            "flow.userForwardedLimit",
            raw.user_forwarded_limit,
            USER_FORWARDED_LIMIT,
            0..=MAX_INFLIGHT,
        ),
        long_running_limit: check.count(
            "flow.longRunningLimit",
            raw.long_running_limit,
            LONG_RUNNING_LIMIT,
            0..=MAX_INFLIGHT,
        ),
        user_long_running_limit: check.count(
            "flow.userLongRunningLimit",
            raw.user_long_running_limit,
            USER_LONG_RUNNING_LIMIT,
            0..=MAX_INFLIGHT,
        ),
    };
    refuse_without_seats(&settings, check);
    settings
}

/// Checks the limits of requests in flight, which are fields of `serving` as they are
/// flags of kube-apiserver.
pub(super) fn in_flight(raw: &raw::Serving, check: &mut Check) -> InFlightLimits {
    InFlightLimits {
        read_only: check.count(
            "serving.maxRequestsInflight",
            raw.max_requests_inflight,
            400,
            0..=MAX_INFLIGHT,
        ),
        mutating: check.count(
            "serving.maxMutatingRequestsInflight",
            raw.max_mutating_requests_inflight,
            200,
            0..=MAX_INFLIGHT,
        ),
    }
}

/// Refuses a configuration without seats, as kube-apiserver does.
fn refuse_without_seats(settings: &FlowSettings, check: &mut Check) {
    if settings.enable_priority_and_fairness && settings.in_flight.total_seats() == 0 {
        let why = "must not be 0 together with maxMutatingRequestsInflight while \
                   flow.enablePriorityAndFairness is true";
        check.error("serving.maxRequestsInflight", "0", why);
    }
}

/// Returns the resources that stay cached because this process itself needs them.
pub(super) fn pinned(settings: &FlowSettings) -> Vec<ResourcePattern> {
    match settings.enable_priority_and_fairness {
        true => vec![
            ResourcePattern::Exact(flow_schemas()),
            ResourcePattern::Exact(priority_levels()),
        ],
        false => Vec::new(),
    }
}
