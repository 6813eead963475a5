//! The order of requests in flight, and their limits.
//!
//! kube-apiserver's API Priority and Fairness (KEP-1040) decides which requests
//! execute, wait or are refused. It uses the cluster's FlowSchemas and
//! PriorityLevelConfigurations; the engine is `crates/fairness`. If it is off, two
//! limits refuse excess requests at once, like kube-apiserver's
//! `--max-requests-inflight` and `--max-mutating-requests-inflight`
//! (k8s.io/apiserver `server/filters/maxinflight.go`).
//!
//! A request holds a seat while its answer is made. A watch gives its seats back
//! when the client has the initial events. An answer that waits for its reader holds
//! bytes instead (`response_bytes.rs`). A request that an API server answers holds a
//! slot among the forwarded ones (`forwarded.rs`). Work that would block a thread
//! runs elsewhere, and users take turns for it (`cpu_turns.rs`).

mod admitted;
mod cpu_turns;
mod forwarded;
mod request_kind;
mod response_bytes;
mod schemas;
mod settings;
#[cfg(test)]
mod tests;
mod turns;
mod waiting;
mod watermark;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apifront_fairness::{Admission, Fairness, Seats, Settings};
pub use apifront_fairness::{Classification, Rejected, RequestDigest, Width};
use arc_swap::ArcSwap;
use kubernetes_wire::api::RETRY_SOON;
use kubernetes_wire::api::user::UserInfo;
use tokio::time::{MissedTickBehavior, interval};

use crate::metrics::FlowMetrics;
use cpu_turns::CpuTurns;
use schemas::Schemas;
use watermark::Watermark;

pub use admitted::Admitted;
pub use cpu_turns::CpuTurn;
pub use forwarded::{ForwardSlot, Forwarded};
pub use request_kind::RequestKind;
pub use response_bytes::{HeldBytes, ResponseBytes};
pub use schemas::{ObjectsJson, flow_schemas, priority_levels};
pub use settings::{FlowSettings, InFlightLimits};
pub use waiting::{Started, Waiting};

/// The body of the answer to a request over the limit. It is not a Status.
pub const TOO_MANY_REQUESTS_BODY: &str = "Too many requests, please try again later.\n";
/// The Content-Type of that answer, which also has `X-Content-Type-Options:
/// nosniff`.
pub const TOO_MANY_REQUESTS_TYPE: &str = "text/plain; charset=utf-8";
/// The `Retry-After` of that answer in seconds, if no priority level has another.
pub const RETRY_AFTER: u64 = RETRY_SOON as u64;

/// The time between two publications of the high-water marks. kube-apiserver has the
/// same.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// The request is refused with 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The seconds after which the client should retry.
    pub retry_after: u64,
}

pub struct Flow {
    fairness: Arc<Fairness>,
    schemas: Schemas,
    /// Whether it is known which objects apply.
    settled: AtomicBool,
    limits: ArcSwap<Limits>,
    read_only: Arc<Watermark>,
    mutating: Arc<Watermark>,
    forwarded: Forwarded,
    answers: ResponseBytes,
    aside: CpuTurns,
    metrics: FlowMetrics,
}

struct Limits {
    /// `None` if FlowSchemas decide.
    in_flight: Option<InFlightLimits>,
    queue_wait: Duration,
}

impl Limits {
    fn new(settings: &FlowSettings) -> Self {
        let fair = settings.enable_priority_and_fairness;
        Self {
            in_flight: (!fair).then_some(settings.in_flight),
            queue_wait: settings.queue_wait,
        }
    }
}

impl Flow {
    pub fn new(settings: &FlowSettings, metrics: FlowMetrics) -> Self {
        let engine = Settings {
            total_seats: settings.in_flight.total_seats(),
        };
        let this = Self::limited(Limits::new(settings), engine, metrics);
        this.forwarded.set_limits(settings);
        this
    }

    fn limited(limits: Limits, settings: Settings, metrics: FlowMetrics) -> Self {
        Self {
            fairness: Fairness::new(settings, metrics.fairness.clone()),
            schemas: Schemas::default(),
            settled: AtomicBool::new(false),
            limits: ArcSwap::from_pointee(limits),
            read_only: Arc::default(),
            mutating: Arc::default(),
            forwarded: Forwarded::new(metrics.forwarded.clone()),
            answers: ResponseBytes::new(metrics.pool("answer")),
            aside: CpuTurns::new(&metrics),
            metrics,
        }
    }

    /// Applies new settings. Requests in flight keep their seats.
    pub fn reload(&self, settings: &FlowSettings) {
        let total_seats = settings.in_flight.total_seats();
        self.fairness.set_total_seats(total_seats);
        self.limits.store(Arc::new(Limits::new(settings)));
        self.forwarded.set_limits(settings);
    }

    /// Applies the cluster's objects, given as JSON. `None` if the cluster has none:
    /// then those of a new cluster apply.
    pub fn configure(&self, objects: Option<&ObjectsJson>) {
        self.schemas.configure(&self.fairness, objects);
    }

    /// Notes that it is known which objects apply: the cluster's, or those of a new
    /// cluster if it serves none.
    pub fn settle(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    pub fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Relaxed)
    }

    pub fn fairness(&self) -> &Fairness {
        &self.fairness
    }

    pub fn forwarded(&self) -> &Forwarded {
        &self.forwarded
    }

    /// Returns the flow schema and priority level of a request. `None` for requests
    /// that kube-apiserver does not classify, and for unknown callers.
    pub fn classify(
        &self,
        kind: RequestKind,
        request: Arc<dyn RequestDigest>,
    ) -> Option<Classification> {
        let fair = self.limits.load().in_flight.is_none();
        let is_classified = fair && kind != RequestKind::LongRunning;
        is_classified.then(|| self.fairness.classify(request))?
    }

    /// Takes the request's seats, or a place in a queue for them. Must be called
    /// after authentication and before authorization.
    pub fn start<'a>(
        &'a self,
        kind: RequestKind,
        user: &UserInfo,
        class: Option<&'a Classification>,
        width: Width,
    ) -> Result<Started<'a>, Refused> {
        let Some(class) = class else {
            return self.admit_unclassified(kind, user).map(Started::Admitted);
        };
        match self.fairness.start(class, width) {
            Ok(Admission::Seats(seats)) => Ok(Started::Admitted(self.seated(kind, seats))),
            Ok(Admission::Waits(queued)) => Ok(Started::Waits(Waiting {
                flow: self,
                kind,
                class,
                queued,
            })),
            Err(_) => Err(self.refused(class)),
        }
    }

    fn seated(&self, kind: RequestKind, seats: Seats) -> Admitted {
        Admitted::seated(seats, self.mark(kind).count())
    }

    fn refused(&self, class: &Classification) -> Refused {
        let retry_after = self.fairness.retry_after(class);
        Refused { retry_after }
    }

    fn admit_unclassified(&self, kind: RequestKind, user: &UserInfo) -> Result<Admitted, Refused> {
        let limits = self.limits.load();
        let limit = match (kind, &limits.in_flight) {
            (RequestKind::LongRunning | RequestKind::Watch, _) | (_, None) => {
                return Ok(Admitted::default());
            }
            (RequestKind::ReadOnly, Some(limits)) => limits.read_only,
            (RequestKind::Mutating, Some(limits)) => limits.mutating,
        };
        match self.mark(kind).count_within(limit) {
            Some(counted) => Ok(Admitted::counted(counted)),
            // An administrator always gets in.
            None if user.is_master() => Ok(Admitted::default()),
            None => Err(Refused {
                retry_after: RETRY_AFTER,
            }),
        }
    }

    fn mark(&self, kind: RequestKind) -> &Arc<Watermark> {
        match kind {
            RequestKind::Mutating => &self.mutating,
            RequestKind::ReadOnly | RequestKind::Watch | RequestKind::LongRunning => {
                &self.read_only
            }
        }
    }

    /// Takes room for an answer that will be made. `bytes` estimates the bytes that
    /// the answer will not share with the store. Waits for room as for seats.
    /// Cancel-safe.
    pub async fn hold(&self, user: Option<&UserInfo>, bytes: usize) -> Result<HeldBytes, Rejected> {
        let wait = self.limits.load().queue_wait;
        match limited(user) {
            Some(user) => self.answers.hold(&user.name, bytes, wait).await,
            None => Ok(HeldBytes::default()),
        }
    }

    /// Takes room for an answer that waits for its reader. `None` if too many
    /// answers of the user wait.
    pub fn hold_waiting(&self, user: Option<&UserInfo>) -> Option<HeldBytes> {
        match limited(user) {
            Some(user) => self
                .answers
                .try_hold(&user.name, response_bytes::WAITING_ANSWER),
            None => Some(HeldBytes::default()),
        }
    }

    /// Called when a forwarded answer begins: the request gives back what it holds,
    /// and holds bytes instead. If there is no room for the bytes, it keeps what it
    /// holds. So no more answers wait than there are slots and bytes for.
    pub fn answer_begins(&self, admitted: &mut Admitted, user: Option<&UserInfo>) {
        if let Some(held) = self.hold_waiting(user) {
            *admitted = Admitted::waiting(held);
        }
    }

    /// Waits for a turn to work elsewhere. Users who want one take turns.
    /// Cancel-safe.
    pub async fn turn(&self, user: Option<&UserInfo>) -> Result<CpuTurn, Rejected> {
        self.aside
            .turn(user.map_or("", |user| user.name.as_str()))
            .await
    }

    /// Counts a client that was given up because it read or sent too slowly.
    pub fn too_slow(&self, what: &'static str) {
        self.metrics.too_slow(what);
    }

    /// Publishes the figures that are not counted with each request: the most
    /// requests in flight since the last call, and the bytes of answers.
    pub fn publish(&self) {
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.metrics
            .read_only
            .set(number(self.read_only.take_high()));
        self.metrics.mutating.set(number(self.mutating.take_high()));
        self.metrics.turns.set(number(self.aside.taken()));
        self.metrics.answer_bytes.set(number(self.answers.held()));
    }

    /// Publishes every second and adjusts the levels, for ever.
    pub async fn run(self: Arc<Self>) {
        let publish = async {
            let mut tick = interval(PUBLISH_EVERY);
            tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tick.tick().await;
                self.publish();
            }
        };
        tokio::join!(publish, self.fairness.clone().run());
    }
}

/// Returns the user if their answers count: not for `system:masters` and for
/// apifront's own user, which is `None`.
fn limited(user: Option<&UserInfo>) -> Option<&UserInfo> {
    user.filter(|user| !user.is_master())
}
