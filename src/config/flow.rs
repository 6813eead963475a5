//! `flow`: whose requests may be in flight, and who waits.

use std::collections::BTreeMap;
use std::time::Duration;

use super::check::Check;
use super::raw;

/// Checked `flow`.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Requests of one user at a time, 0 for no limit.
    pub user_concurrency_limit: usize,
    /// Requests of all members of a group together; none is 0.
    pub group_concurrency_limits: BTreeMap<String, usize>,
    /// Requests of one user that may wait for one of these limits.
    pub queue_length_limit: usize,
    pub queue_wait: Duration,
    /// Forwarded requests that stay open, 0 for no limit.
    pub long_running_limit: usize,
    /// The same of one user.
    pub user_long_running_limit: usize,
}

/// More than there may be in flight anyway.
const MOST: i64 = 1 << 20;

/// A quarter of `serving.maxRequestsInflight` and half of
/// `serving.maxMutatingRequestsInflight`: one user leaves room for others of
/// both kinds. A seat is held while an answer is made, for milliseconds, so that
/// the busiest controllers seldom have a tenth of it.
const USER_LIMIT: usize = 100;

/// With a user's own limit, as many as there are seats for reads: a herd of
/// agents with one service account waits where it would not have been refused
/// without that limit.
const QUEUE_LENGTH: usize = 300;

/// What kube-apiserver makes a request wait that gave no time of its own: a
/// quarter of `--request-timeout`.
const QUEUE_WAIT: Duration = Duration::from_secs(15);

/// Well below the 28,000 ports that Linux has for connections to one address:
/// what cannot share a connection has one of its own.
const LONG_RUNNING: usize = 10_000;

/// A tenth of it: ten users at their limit leave none, one or two are noticed.
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
