//! How many requests may be in flight, and who goes first: kube-apiserver's
//! `--max-requests-inflight` and `--max-mutating-requests-inflight`
//! (k8s.io/apiserver `server/filters/maxinflight.go`), and what its API
//! Priority and Fairness is for (KEP-1040), by fewer and plainer settings.
//!
//! A request takes a seat in each pool that it belongs to, always in this
//! order, so that no two wait for each other: that of its user, those of his
//! groups that have a limit, that of its kind. In the first ones it waits for
//! its turn; the last, which protect this process's memory, refuse at once.
//! The start of a watch waits in a pool of its own, and gives its seats back
//! when the client has the initial events: what follows costs little.
//!
//! A seat is for making an answer. What waits for its reader then holds bytes
//! (`response_bytes.rs`), and work that would hold up a thread goes aside, users in
//! turns.
//!
//! Upstreams protect themselves.

mod forwarded_streams;
mod pool;
mod response_bytes;
mod user_pools;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::time::{MissedTickBehavior, interval};

use crate::config;
use crate::metrics::FlowMetrics;
pub use forwarded_streams::{Exceeded, ForwardedStreams, OpenForwarded};
use kubernetes_wire::api::user::{MASTERS, UserInfo};
use kubernetes_wire::request::RequestInfo;
use pool::{Pool, QueuePolicy};
use user_pools::UserPools;

pub use pool::Seat;
pub use response_bytes::{HeldBytes, ResponseBytes};

/// The answer to a request over the limit. It is not a Status.
pub const TOO_MANY_REQUESTS_BODY: &str = "Too many requests, please try again later.\n";
/// Its Content-Type; `X-Content-Type-Options: nosniff` goes with it.
pub const TOO_MANY_REQUESTS_TYPE: &str = "text/plain; charset=utf-8";
/// Its `Retry-After`, in seconds.
pub const RETRY_AFTER: &str = "1";

/// How often the high-water marks are published, as in kube-apiserver.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// Watches that wait to begin, of one user. A herd is most often of one: the
/// agents of all nodes with one service account. A watch that waits costs no
/// more than it will when it has begun, so that all of them may, as far as the
/// pool's own bound goes; there one user's last watch gives way to another's
/// first.
const WAITING_WATCHES: usize = usize::MAX;

/// How long work may wait for its turn aside: kube-apiserver's
/// `--request-timeout`. Those who wait are no more than requests in flight.
const TURN_WAIT: Duration = Duration::from_secs(60);

/// Which limit a request counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    ReadOnly,
    Mutating,
    /// Until its initial events are sent.
    WatchStart,
    /// Would hold its place for hours, and is exempt.
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

/// Why a request is refused with 429; kube-apiserver's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests: {}", self.as_str())]
pub enum Rejected {
    /// And it is not one to wait.
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

/// A request's seats, given back when dropped. Exempt requests hold none.
#[derive(Debug, Default)]
#[expect(dead_code, reason = "held until dropped")]
pub struct Admitted {
    seats: (Option<Seat>, Vec<Seat>, Option<Seat>),
    /// Bytes that take their place once the answer has begun.
    answer: HeldBytes,
}

impl Admitted {
    fn of(seats: (Option<Seat>, Vec<Seat>, Option<Seat>)) -> Self {
        Self {
            seats,
            answer: HeldBytes::default(),
        }
    }
}

/// What limits a group: of several members' requests together.
#[derive(Clone)]
struct Group {
    name: String,
    pool: Arc<Pool>,
}

/// Requests in flight in this process.
pub struct Flow {
    read_only: Arc<Pool>,
    mutating: Arc<Pool>,
    watch_starts: Arc<Pool>,
    users: UserPools,
    /// By name.
    groups: RwLock<Arc<[Group]>>,
    policy: RwLock<QueuePolicy>,
    forwarded: Arc<ForwardedStreams>,
    answers: ResponseBytes,
    /// Work aside: one thing for each core.
    aside: Arc<Pool>,
    metrics: FlowMetrics,
}

impl Flow {
    pub fn new(config: &config::Config, metrics: FlowMetrics) -> Self {
        let this = Self::unlimited(metrics);
        this.reload(config);
        this
    }

    fn unlimited(metrics: FlowMetrics) -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self {
            read_only: Pool::new(0, metrics.pool("readOnly")),
            mutating: Pool::new(0, metrics.pool("mutating")),
            watch_starts: Pool::new(0, metrics.pool("watchStart")),
            users: UserPools::new(metrics.pool("user")),
            groups: RwLock::new(Arc::from([])),
            policy: RwLock::new(QueuePolicy::NONE),
            forwarded: ForwardedStreams::new(metrics.forwarded.clone()),
            answers: ResponseBytes::new(metrics.pool("answer")),
            aside: Pool::new(cores, metrics.pool("aside")),
            metrics,
        }
    }

    /// Takes the configuration's limits on. What is in flight stays, and who
    /// waits is let in by the new limits.
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
        self.set_groups(&flow.group_concurrency_limits);
    }

    fn set_groups(&self, limits: &BTreeMap<String, usize>) {
        let mut groups = self.groups.write();
        let known = |name: &str| groups.iter().find(|g| g.name == *name).cloned();
        let fresh = |name: &str| Group {
            name: name.to_owned(),
            pool: Pool::new(0, self.metrics.pool(name)),
        };
        let wanted: Vec<Group> = limits
            .keys()
            .map(|name| known(name).unwrap_or_else(|| fresh(name)))
            .collect();
        for group in groups.iter() {
            if !limits.contains_key(&group.name) {
                group.pool.set_limit(0);
                self.metrics.forget(&group.name);
            }
        }
        for group in &wanted {
            let limit = limits.get(&group.name).copied().unwrap_or_default();
            group.pool.set_limit(limit);
        }
        *groups = wanted.into();
    }

    /// Forwarded requests that stay open.
    pub fn forwarded(&self) -> &Arc<ForwardedStreams> {
        &self.forwarded
    }

    /// Takes seats, after authentication and before authorization; waits for
    /// them if need be. Cancel-safe.
    ///
    /// `system:masters` is not held up, so that an administrator can always
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
        let limited = self.groups.read().clone();
        let mut groups = Vec::new();
        for group in limited.iter() {
            if user.groups.contains(&group.name) {
                groups.push(group.pool.seat(&user.name, policy).await?);
            }
        }
        let lane = lane.seat(&user.name, lanes_patience).await?;
        Ok(Admitted::of((own, groups, Some(lane))))
    }

    /// Room for an answer that is about to be made, of about so many bytes that
    /// the store does not share. Waits for it as for a seat. Cancel-safe.
    pub async fn hold(&self, user: Option<&UserInfo>, bytes: usize) -> Result<HeldBytes, Rejected> {
        let policy = *self.policy.read();
        match limited(user) {
            Some(user) => self.answers.hold(&user.name, bytes, policy).await,
            None => Ok(HeldBytes::default()),
        }
    }

    /// Room for an answer that waits for its reader; `None` if the user has too
    /// many of them.
    pub fn hold_waiting(&self, user: Option<&UserInfo>) -> Option<HeldBytes> {
        match limited(user) {
            Some(user) => self
                .answers
                .try_hold(&user.name, response_bytes::WAITING_ANSWER),
            None => Some(HeldBytes::default()),
        }
    }

    /// A forwarded answer begins: its request gives the seats back and holds
    /// bytes instead. Where there is no room for these it keeps the seats, so
    /// that no more such answers wait than there are seats and bytes for.
    pub fn answer_begins(&self, admitted: &mut Admitted, user: Option<&UserInfo>) {
        if let Some(held) = self.hold_waiting(user) {
            *admitted = Admitted {
                answer: held,
                ..Admitted::default()
            };
        }
    }

    /// A turn for work aside, which goes round among the users who want one.
    /// Cancel-safe.
    pub async fn turn(&self, user: Option<&UserInfo>) -> Result<Seat, Rejected> {
        let name = user.map_or("", |user| user.name.as_str());
        let policy = QueuePolicy {
            queue_length: usize::MAX,
            wait: TURN_WAIT,
        };
        self.aside.seat(name, policy).await
    }

    /// A client was given up because it took, or gave, too little.
    pub fn too_slow(&self, what: &'static str) {
        self.metrics.too_slow(what);
    }

    /// Publishes how many requests execute, and the most in flight since the
    /// last call.
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
        self.metrics
            .executing("aside", number(self.aside.executing().0));
        self.metrics.answer_bytes.set(number(self.answers.sweep()));
        for group in self.groups.read().iter() {
            let (executing, _) = group.pool.executing();
            self.metrics.executing(&group.name, number(executing));
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

/// Whose answers count. `None`: apifront's own user, who is whoever started it,
/// and `system:masters`, who are not held up.
fn limited(user: Option<&UserInfo>) -> Option<&UserInfo> {
    user.filter(|user| !user.groups.iter().any(|g| g == MASTERS))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use prometheus::Registry;

    use super::*;

    fn config(user: usize, groups: &[(&str, usize)]) -> config::Flow {
        config::Flow {
            user_concurrency_limit: user,
            group_concurrency_limits: groups.iter().map(|(g, n)| ((*g).to_owned(), *n)).collect(),
            ..config::Flow::default()
        }
    }

    fn flow(reads: usize, writes: usize, limits: &config::Flow) -> Flow {
        let metrics = FlowMetrics::register(&Registry::new()).unwrap();
        let flow = Flow::unlimited(metrics);
        flow.set_limits(reads, writes, limits);
        flow
    }

    fn user(name: &str, groups: &[&str]) -> UserInfo {
        UserInfo {
            name: name.to_owned(),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            ..UserInfo::default()
        }
    }

    /// `None`: it waits, and here it leaves again.
    fn admit(
        flow: &Flow,
        kind: RequestKind,
        user: &UserInfo,
    ) -> Option<Result<Admitted, Rejected>> {
        flow.admit(kind, user).now_or_never()
    }

    use RequestKind::{LongRunning, Mutating, ReadOnly, WatchStart};

    #[tokio::test]
    async fn requests_over_the_limit_are_refused_until_one_ends() {
        let flow = flow(2, 1, &config(0, &[]));
        let user = user("a", &[]);
        let first = admit(&flow, ReadOnly, &user).unwrap().unwrap();
        let _second = admit(&flow, ReadOnly, &user).unwrap().unwrap();
        let refused = admit(&flow, ReadOnly, &user).unwrap();
        assert_eq!(refused.unwrap_err(), Rejected::ConcurrencyLimit);
        // The other lane is another lane, and the start of a watch waits.
        assert!(admit(&flow, Mutating, &user).unwrap().is_ok());
        let _starts: Vec<_> = (0..2)
            .map(|_| admit(&flow, WatchStart, &user).unwrap())
            .collect();
        assert!(admit(&flow, WatchStart, &user).is_none());
        drop(first);
        assert!(admit(&flow, ReadOnly, &user).unwrap().is_ok());
    }

    #[tokio::test]
    async fn streams_and_administrators_are_exempt() {
        let flow = flow(1, 1, &config(1, &[("staff", 1)]));
        let (staff, admin) = (user("a", &["staff"]), user("root", &["staff", MASTERS]));
        let _write = admit(&flow, Mutating, &staff).unwrap().unwrap();
        let _held: Vec<_> = [
            (LongRunning, &staff),
            (Mutating, &admin),
            (WatchStart, &admin),
        ]
        .map(|(kind, user)| admit(&flow, kind, user).unwrap().unwrap())
        .into();
        assert!(admit(&flow, WatchStart, &admin).unwrap().is_ok());
        // The user's own limit makes it wait.
        assert!(admit(&flow, Mutating, &staff).is_none());
    }

    #[tokio::test]
    async fn users_and_groups_are_limited_apart() {
        let flow = flow(0, 0, &config(2, &[("a-team", 3), ("staff", 4)]));
        let mut held = Vec::new();
        for (name, groups, expected) in [
            ("a", &["a-team"][..], true),
            ("a", &["a-team"], true),
            // Its own limit.
            ("a", &["a-team"], false),
            ("b", &["a-team", "staff"], true),
            // That of the a-team.
            ("c", &["staff", "a-team"], false),
            ("c", &["staff"], true),
            ("d", &["staff"], true),
            ("d", &["staff"], true),
            // That of the staff.
            ("e", &["staff"], false),
            ("e", &["others"], true),
        ] {
            let admitted = admit(&flow, ReadOnly, &user(name, groups));
            assert_eq!(admitted.is_some(), expected, "{name} {groups:?}");
            held.extend(admitted);
        }
        // One that waited and left has left the pools it passed, too.
        flow.publish();
        assert_eq!(flow.metrics.read_only.get(), 7);
        let gauge = |name: &str| flow.metrics.executing_of(name);
        assert_eq!((gauge("user"), gauge("a-team"), gauge("staff")), (7, 3, 4));
        held.clear();
        flow.publish();
        assert_eq!((gauge("user"), gauge("a-team"), gauge("staff")), (0, 0, 0));
    }

    #[tokio::test]
    async fn a_reload_lets_in_who_waits() {
        let flow = flow(0, 0, &config(0, &[("staff", 1)]));
        let staff = user("a", &["staff"]);
        let _held = admit(&flow, ReadOnly, &staff);
        let mut waiting = Box::pin(flow.admit(ReadOnly, &staff));
        assert!((&mut waiting).now_or_never().is_none());
        flow.set_limits(0, 0, &config(0, &[]));
        assert!((&mut waiting).now_or_never().is_some());
        flow.set_limits(0, 0, &config(0, &[("staff", 1)]));
        assert!(admit(&flow, ReadOnly, &staff).unwrap().is_ok());
    }

    /// Its seat is another's as soon as the answer begins; who has too many
    /// answers waiting keeps the seats of the others.
    #[tokio::test]
    async fn an_answer_that_waits_holds_bytes_instead_of_a_seat() {
        let flow = flow(1, 1, &config(0, &[]));
        let (slow, other) = (user("slow", &[]), user("other", &[]));
        let mut waiting = Vec::new();
        let kept = loop {
            let mut admitted = admit(&flow, ReadOnly, &slow).unwrap().unwrap();
            flow.answer_begins(&mut admitted, Some(&slow));
            if flow.read_only.executing().0 > 0 {
                break admitted;
            }
            waiting.push(admitted);
        };
        assert_eq!(
            waiting.len(),
            response_bytes::USER_BYTES / response_bytes::WAITING_ANSWER
        );
        assert!(flow.hold_waiting(Some(&slow)).is_none());
        assert!(flow.hold_waiting(Some(&other)).is_some());
        flow.publish();
        let bytes = i64::try_from(response_bytes::USER_BYTES).unwrap();
        assert_eq!(flow.metrics.answer_bytes.get(), bytes);
        drop((kept, waiting));
        assert!(flow.hold_waiting(Some(&slow)).is_some());
        flow.publish();
        assert_eq!(flow.metrics.answer_bytes.get(), 0);
        // Administrators are not held up.
        let admin = user("root", &[MASTERS]);
        let all = (0..10_000).map(|_| flow.hold_waiting(Some(&admin)));
        assert!(all.collect::<Vec<_>>().iter().all(Option::is_some));
    }

    #[tokio::test]
    async fn turns_aside_go_round_among_users() {
        let flow = flow(0, 0, &config(0, &[]));
        let (greedy, other) = (user("greedy", &[]), user("other", &[]));
        let cores = available_parallelism().map_or(1, usize::from);
        let mut turns: Vec<_> = (0..cores)
            .map(|_| flow.turn(Some(&greedy)).now_or_never().unwrap().unwrap())
            .collect();
        let mut waiting: Vec<_> = (0..100).map(|_| flow.turn(Some(&greedy)).boxed()).collect();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
        let mut late = flow.turn(Some(&other)).boxed();
        assert!((&mut late).now_or_never().is_none());
        // One of the others first, as it came first.
        turns.pop();
        assert!((&mut late).now_or_never().is_none());
        let taken = waiting.iter_mut().find_map(|turn| turn.now_or_never());
        drop(taken);
        assert!((&mut late).now_or_never().is_some());
    }

    #[tokio::test]
    async fn zero_is_no_limit() {
        let flow = flow(0, 0, &config(0, &[]));
        let user = user("a", &[]);
        let all = (0..1000).map(|_| admit(&flow, Mutating, &user).unwrap());
        assert!(all.collect::<Vec<_>>().iter().all(Result::is_ok));
    }

    #[tokio::test]
    async fn the_gauge_shows_the_most_of_the_last_second() {
        let flow = flow(2, 1, &config(0, &[]));
        let user = user("a", &[]);
        let one = admit(&flow, ReadOnly, &user).unwrap().unwrap();
        drop(admit(&flow, ReadOnly, &user).unwrap().unwrap());
        for (expected, end) in [(2, None), (1, Some(one)), (1, None), (0, None)] {
            flow.publish();
            assert_eq!(flow.metrics.read_only.get(), expected);
            drop(end);
        }
    }
}
