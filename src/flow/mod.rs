//! The limits of requests in flight, and their order. The limits are
//! kube-apiserver's `--max-requests-inflight` and
//! `--max-mutating-requests-inflight` (k8s.io/apiserver
//! `server/filters/maxinflight.go`). The order has the purpose of its API
//! Priority and Fairness (KEP-1040), with fewer and plainer settings.
//!
//! A request takes a seat in the pool of its user, then in the pools of the
//! user's groups that have a limit, then in the pool of its kind. The order is
//! always the same, so that no two requests wait for each other. In the first
//! pools it waits for its turn. The last ones, which protect this process's
//! memory, refuse at once. The start of a watch waits in its own pool, and
//! gives its seats back when the client has the initial events, since the rest
//! of the watch costs little.
//!
//! A seat is for making an answer. An answer that waits for its reader holds
//! bytes instead (`response_bytes.rs`). Work that would hold up a thread runs
//! elsewhere, and users take turns.
//!
//! Upstreams protect themselves.

mod cpu_turns;
mod forwarded_streams;
mod group_pools;
mod pool;
mod response_bytes;
#[cfg(test)]
mod tests;
mod user_pools;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::{MissedTickBehavior, interval};

use crate::config;
use crate::metrics::FlowMetrics;
use cpu_turns::CpuTurns;
pub use forwarded_streams::{Exceeded, ForwardedStreams, OpenForwarded};
use group_pools::GroupPools;
use kubernetes_wire::api::user::{MASTERS, UserInfo};
use kubernetes_wire::request::RequestInfo;
use pool::{Pool, QueuePolicy};
use user_pools::UserPools;

pub use cpu_turns::CpuTurn;
pub use pool::Seat;
pub use response_bytes::{HeldBytes, ResponseBytes};

/// The answer to a request over the limit. It is not a Status.
pub const TOO_MANY_REQUESTS_BODY: &str = "Too many requests, please try again later.\n";
/// The Content-Type of that answer; `X-Content-Type-Options: nosniff` goes with
/// it.
pub const TOO_MANY_REQUESTS_TYPE: &str = "text/plain; charset=utf-8";
/// The `Retry-After` of that answer, in seconds.
pub const RETRY_AFTER: &str = "1";

/// The time between two publications of the high-water marks, as in
/// kube-apiserver.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// The most watches of one user that wait to begin. Most often a herd is of one
/// user: the agents of all nodes have one service account. A watch that waits
/// costs no more than one that has begun, so all of them may wait, up to the
/// bound of the pool. At that bound the last watch of one user gives way to the
/// first of another.
const WAITING_WATCHES: usize = usize::MAX;

/// The kind of a request, which selects its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    ReadOnly,
    Mutating,
    /// A watch, until its initial events are sent.
    WatchStart,
    /// A request that may hold its place for hours. It is exempt.
    LongRunning,
}

impl RequestKind {
    pub fn of(info: &RequestInfo) -> Self {
        if info.verb == "watch" {
            Self::WatchStart
        } else if info.is_long_running() {
            Self::LongRunning
        } else if info.is_mutating() {
            Self::Mutating
        } else {
            Self::ReadOnly
        }
    }
}

/// The reason why a request is refused with 429, in kube-apiserver's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests: {}", self.as_str())]
pub enum Rejected {
    /// The limit is reached, and the request may not wait.
    ConcurrencyLimit,
    QueueFull,
    TimeOut,
}

impl Rejected {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConcurrencyLimit => "concurrency-limit",
            Self::QueueFull => "queue-full",
            Self::TimeOut => "time-out",
        }
    }
}

/// The seats of a request. Dropping it gives them back. Exempt requests hold
/// none.
#[derive(Debug, Default)]
#[expect(dead_code, reason = "held until dropped")]
pub struct Admitted {
    seats: (Option<Seat>, Vec<Seat>, Option<Seat>),
    /// The bytes that replace the seats once the answer has begun.
    answer: HeldBytes,
}

impl Admitted {
    fn of(seats: (Option<Seat>, Vec<Seat>, Option<Seat>)) -> Self {
        Self {
            seats,
            answer: HeldBytes::default(),
        }
    }

    /// Gives back everything but the seat of the user, which is returned.
    pub fn into_own_seat(self) -> Option<Seat> {
        self.seats.0
    }
}

/// Requests in flight in this process.
pub struct Flow {
    read_only: Arc<Pool>,
    mutating: Arc<Pool>,
    watch_starts: Arc<Pool>,
    users: UserPools,
    groups: GroupPools,
    policy: RwLock<QueuePolicy>,
    forwarded: Arc<ForwardedStreams>,
    answers: ResponseBytes,
    aside: CpuTurns,
    metrics: FlowMetrics,
}

impl Flow {
    pub fn new(config: &config::Config, metrics: FlowMetrics) -> Self {
        let this = Self::unlimited(metrics);
        this.reload(config);
        this
    }

    fn unlimited(metrics: FlowMetrics) -> Self {
        Self {
            read_only: Pool::new(0, metrics.pool("readOnly")),
            mutating: Pool::new(0, metrics.pool("mutating")),
            watch_starts: Pool::new(0, metrics.pool("watchStart")),
            users: UserPools::new(metrics.pool("user")),
            groups: GroupPools::new(metrics.clone()),
            policy: RwLock::new(QueuePolicy::NONE),
            forwarded: ForwardedStreams::new(metrics.forwarded.clone()),
            answers: ResponseBytes::new(metrics.pool("answer")),
            aside: CpuTurns::new(&metrics),
            metrics,
        }
    }

    /// Puts the limits of a configuration in force. Requests in flight stay,
    /// and the new limits let in the requests that wait.
    pub fn reload(&self, config: &config::Config) {
        let reads = config.serving.max_requests_inflight;
        let writes = config.serving.max_mutating_requests_inflight;
        self.set_limits(reads, writes, &config.flow);
    }

    fn set_limits(&self, reads: usize, writes: usize, flow: &config::Flow) {
        self.read_only.set_limit(reads);
        self.mutating.set_limit(writes);
        self.watch_starts.set_limit(reads);
        *self.policy.write() = QueuePolicy {
            queue_length: flow.queue_length_limit,
            wait: flow.queue_wait,
        };
        self.forwarded.set_limits(flow);
        self.users.set_limit(flow.user_concurrency_limit);
        self.groups.set_limits(&flow.group_concurrency_limits);
    }

    /// Returns the forwarded requests that stay open.
    pub fn forwarded(&self) -> &Arc<ForwardedStreams> {
        &self.forwarded
    }

    /// Takes the seats of a request, after authentication and before
    /// authorization, and waits for them if need be. Cancel-safe.
    ///
    /// `system:masters` does not wait, so that an administrator can always
    /// look.
    pub async fn admit(&self, kind: RequestKind, user: &UserInfo) -> Result<Admitted, Rejected> {
        let (lane, lanes_patience) = match kind {
            RequestKind::LongRunning => return Ok(Admitted::default()),
            RequestKind::ReadOnly => (&self.read_only, QueuePolicy::NONE),
            RequestKind::Mutating => (&self.mutating, QueuePolicy::NONE),
            RequestKind::WatchStart => {
                let policy = QueuePolicy {
                    queue_length: WAITING_WATCHES,
                    ..*self.policy.read()
                };
                (&self.watch_starts, policy)
            }
        };
        if user.groups.iter().any(|g| g == MASTERS) {
            return Ok(Admitted::of((None, Vec::new(), lane.try_seat())));
        }
        let policy = match kind {
            RequestKind::WatchStart => lanes_patience,
            _ => *self.policy.read(),
        };
        let own = match self.users.pool(&user.name) {
            Some(pool) => Some(pool.seat(&user.name, policy).await?),
            None => None,
        };
        let groups = self.groups.seats(user, policy).await?;
        let lane = lane.seat(&user.name, lanes_patience).await?;
        Ok(Admitted::of((own, groups, Some(lane))))
    }

    /// Takes room for an answer that is about to be made, with about so many
    /// bytes that the store does not share. Waits for it as for a seat.
    /// Cancel-safe.
    pub async fn hold(&self, user: Option<&UserInfo>, bytes: usize) -> Result<HeldBytes, Rejected> {
        let policy = *self.policy.read();
        match limited(user) {
            Some(user) => self.answers.hold(&user.name, bytes, policy).await,
            None => Ok(HeldBytes::default()),
        }
    }

    /// Takes room for an answer that waits for its reader. Returns `None` if
    /// the user has too many of them.
    pub fn hold_waiting(&self, user: Option<&UserInfo>) -> Option<HeldBytes> {
        match limited(user) {
            Some(user) => self
                .answers
                .try_hold(&user.name, response_bytes::WAITING_ANSWER),
            None => Some(HeldBytes::default()),
        }
    }

    /// Gives the seats of a request back when its forwarded answer begins. The
    /// request holds bytes instead. If there is no room for these, it keeps the
    /// seats, so that no more such answers wait than there are seats and bytes
    /// for.
    pub fn answer_begins(&self, admitted: &mut Admitted, user: Option<&UserInfo>) {
        if let Some(held) = self.hold_waiting(user) {
            *admitted = Admitted {
                answer: held,
                ..Admitted::default()
            };
        }
    }

    /// Waits for a turn to do work elsewhere. Turns go round among the users
    /// who want one. Cancel-safe.
    pub async fn turn(&self, user: Option<&UserInfo>) -> Result<CpuTurn, Rejected> {
        self.aside
            .turn(user.map_or("", |user| user.name.as_str()))
            .await
    }

    /// Counts a client that was given up because it read or sent too slowly.
    pub fn too_slow(&self, what: &'static str) {
        self.metrics.too_slow(what);
    }

    /// Publishes the number of requests that execute, and the most in flight
    /// since the last call.
    pub fn publish(&self) {
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        for (name, pool, most) in [
            ("readOnly", &self.read_only, Some(&self.metrics.read_only)),
            ("mutating", &self.mutating, Some(&self.metrics.mutating)),
            ("watchStart", &self.watch_starts, None),
        ] {
            let (executing, high) = pool.executing();
            self.metrics.executing(name, number(executing));
            if let Some(gauge) = most {
                gauge.set(number(high));
            }
        }
        self.metrics.executing("user", number(self.users.sweep()));
        self.metrics.executing("aside", number(self.aside.sweep()));
        self.metrics.answer_bytes.set(number(self.answers.sweep()));
        for (name, executing) in self.groups.executing() {
            self.metrics.executing(&name, number(executing));
        }
    }

    /// Publishes every second, for ever.
    pub async fn run(self: Arc<Self>) {
        let mut tick = interval(PUBLISH_EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tick.tick().await;
            self.publish();
        }
    }
}

/// Returns the user if their answers count. Those of `system:masters` do not.
/// Nor do those of `None`, which is apifront's own user.
fn limited(user: Option<&UserInfo>) -> Option<&UserInfo> {
    user.filter(|user| !user.groups.iter().any(|g| g == MASTERS))
}
