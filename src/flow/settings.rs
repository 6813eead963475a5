//! The settings of flow control: who waits, for how long, and the limits.

use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct FlowSettings {
    /// Whether FlowSchemas and PriorityLevelConfigurations decide who waits.
    /// Otherwise the limits of requests in flight refuse what exceeds them.
    pub enable_priority_and_fairness: bool,
    pub in_flight: InFlightLimits,
    /// The longest time that a request waits for its seats.
    pub queue_wait: Duration,
    /// The limit of forwarded requests that upstream has not answered. 0 for no
    /// limit.
    pub forwarded_limit: usize,
    /// The same limit for one user.
    pub user_forwarded_limit: usize,
    /// The limit of forwarded requests that stay open. 0 for no limit.
    pub long_running_limit: usize,
    /// The same limit for one user.
    pub user_long_running_limit: usize,
}

/// The limits of requests in flight. Together they are the seats that FlowSchemas
/// share out. Without priority and fairness, they are the limits of kube-apiserver's
/// flags of the same names: 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlightLimits {
    pub read_only: usize,
    pub mutating: usize,
}

impl InFlightLimits {
    pub fn total_seats(self) -> usize {
        self.read_only.saturating_add(self.mutating)
    }
}
