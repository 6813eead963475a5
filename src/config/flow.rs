//! `flow`: limits of the requests in flight, and the queues before them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::check::Check;
use super::raw;

/// Checked `flow`.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Requests of one user at a time, 0 for no limit.
    pub user_concurrency_limit: usize,
    /// Requests of all members of a group together. No limit is 0.
    pub group_concurrency_limits: BTreeMap<String, usize>,
    /// Requests of one user that may wait for one of these limits.
    pub queue_length_limit: usize,
    pub queue_wait: Duration,
    /// Forwarded requests that stay open, 0 for no limit.
    pub long_running_limit: usize,
    /// Forwarded requests of one user that stay open, 0 for no limit.
    pub user_long_running_limit: usize,
}

/// The highest limit. There can never be more requests in flight.
const MOST: i64 = 1 << 20;

/// The default limit of a user: a quarter of `serving.maxRequestsInflight` and
/// half of `serving.maxMutatingRequestsInflight`, so that one user leaves room
/// for others of both kinds. A seat is held while an answer is made, for
/// milliseconds, so that the busiest controllers seldom have a tenth of it.
const USER_LIMIT: usize = 100;

/// The default length of a user's queue. Together with the user's own limit
/// there are as many places as seats for reads. A herd of agents with one
/// service account can therefore wait; without the user's limit it would have
/// found seats.
const QUEUE_LENGTH: usize = 300;

/// The time for which kube-apiserver lets a request wait that names no timeout:
/// a quarter of `--request-timeout`.
const QUEUE_WAIT: Duration = Duration::from_secs(15);

/// The default limit of forwarded requests that stay open. It is well below the
/// 28,000 ports that Linux has for connections to one address, because a
/// request that cannot share a connection has its own.
const LONG_RUNNING: usize = 10_000;

/// The default limit of one user: a tenth of it. Ten users at their limit leave
/// nothing to others, but one or two do.
const USER_LONG_RUNNING: usize = 1_000;

impl Default for Flow {
    fn default() -> Self {
        Self {
            user_concurrency_limit: USER_LIMIT,
            group_concurrency_limits: BTreeMap::new(),
            queue_length_limit: QUEUE_LENGTH,
            queue_wait: QUEUE_WAIT,
            long_running_limit: LONG_RUNNING,
            user_long_running_limit: USER_LONG_RUNNING,
        }
    }
}

impl Flow {
    pub(super) fn check(raw: &raw::Flow, check: &mut Check) -> Self {
        let groups = raw.group_concurrency_limits.iter().flatten();
        Self {
            user_concurrency_limit: check.count(
                "flow.userConcurrencyLimit",
                raw.user_concurrency_limit,
                USER_LIMIT,
                0..=MOST as usize,
            ),
            group_concurrency_limits: groups
                .filter_map(|(group, limit)| {
                    let limit = Some(*limit).filter(|limit| (1..=MOST).contains(limit));
                    if limit.is_none() || group.is_empty() {
                        check.error(
                            &format!("flow.groupConcurrencyLimits[{group}]"),
                            "",
                            &format!("must be a group's name and a number from 1 to {MOST}"),
                        );
                    }
                    Some((group.clone(), usize::try_from(limit?).ok()?))
                })
                .collect(),
            queue_length_limit: check.count(
                "flow.queueLengthLimit",
                raw.queue_length_limit,
                QUEUE_LENGTH,
                0..=MOST as usize,
            ),
            queue_wait: check.duration("flow.queueWait", &raw.queue_wait, QUEUE_WAIT),
            long_running_limit: check.count(
                "flow.longRunningLimit",
                raw.long_running_limit,
                LONG_RUNNING,
                0..=MOST as usize,
            ),
            user_long_running_limit: check.count(
                "flow.userLongRunningLimit",
                raw.user_long_running_limit,
                USER_LONG_RUNNING,
                0..=MOST as usize,
            ),
        }
    }
}
