//! Shadow mode (`cache.mode: Shadow`): every read is forwarded. For a sample of
//! reads, the answer from memory is also made, at the version of upstream's answer.
//! This module compares the two and keeps the results. `server/answer/shadow` makes
//! the answers.

mod age;
mod body;
mod columns;
mod difference;
mod frames;
mod headers;
mod json;
mod log_rate;
mod protobuf;
mod report;
mod representation;
mod version;

use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_shares::{FairQueue, Limits, QueueFull, QueueLimits, Share, Shares};
use apifront_watch_cache::ShadowLimits;
use apifront_watch_cache::fingerprint::FingerprintKey;
use kubernetes_wire::api::GroupVersionResource;
use parking_lot::Mutex;

use crate::metrics::ShadowMetrics;

pub use body::{Body, Unreadable, compare as compare_bodies, compare_pieces, plain};
pub use columns::Columns;
pub use difference::{Difference, ToldDifference};
pub use frames::{Frame, FrameReader};
pub use headers::compare as compare_headers;
use log_rate::LogRate;
pub use report::{Found, OfResource, Report, Subject, Tally, Verdict};
pub use representation::Label;
pub use version::of_answer as version_of;

/// The turns for making and comparing answers. Turns are short, and callers take
/// turns, so a single caller may have both. Waiting comparisons hold the bytes of
/// their answers, and their requests of some KB each.
const TURNS: QueueLimits = QueueLimits {
    at_a_time: 2,
    at_a_time_of_one: 0,
    waiting: 4_096,
    waiting_of_one: 0,
};

/// The most watches that are followed at a time. Each holds a watch of the cache.
const MAX_WATCHES: usize = 256;

/// Bytes of upstream's answers that are held for comparison.
pub type HeldBytes = Share<Arc<str>>;

pub type FollowedWatch = Share<Arc<str>>;

pub type Turn = apifront_shares::Turn<Arc<str>>;

/// The results of shadow mode, and the limits of its work. No caller has more bytes
/// or watches than are free, so that the comparisons are not all of one caller's
/// reads.
pub struct Shadow {
    bytes: Shares<Arc<str>>,
    turns: Arc<FairQueue<Arc<str>>>,
    watches: Shares<Arc<str>>,
    metrics: ShadowMetrics,
    report: Mutex<Report>,
    log_rate: Mutex<LogRate>,
    key: FingerprintKey,
}

impl Shadow {
    /// `key` makes the fingerprints of differing contents.
    pub fn new(metrics: ShadowMetrics, key: FingerprintKey) -> Self {
        Self {
            bytes: Shares::new(Limits::shared(0)),
            turns: FairQueue::new(TURNS),
            watches: Shares::new(Limits::shared(MAX_WATCHES)),
            metrics,
            report: Mutex::default(),
            log_rate: Mutex::default(),
            key,
        }
    }

    /// Draws whether a read is compared.
    pub fn draws(limits: &ShadowLimits) -> bool {
        rand::random_range(0..1_000_000) < limits.sampling_rate_per_million
    }

    /// Begins to hold bytes of an answer to this caller. All answers together hold
    /// at most `most`.
    pub fn begin(&self, caller: Option<Arc<str>>, most: usize) -> HeldBytes {
        self.bytes.set_limits(Limits::shared(most));
        self.bytes.nothing(caller)
    }

    /// Waits for the turn of a comparison. Cancel-safe.
    pub async fn turn(&self, caller: Option<Arc<str>>) -> Result<Turn, QueueFull> {
        self.turns.take(&caller.unwrap_or_default()).await
    }

    /// Takes a place for a followed watch. `None` if none is left.
    pub fn watch(&self, caller: Option<Arc<str>>) -> Option<FollowedWatch> {
        self.watches.take(caller, 1).ok()
    }

    /// Notes how the cache would have handled a read: answered it, or forwarded it
    /// for the reason `bypass`.
    pub fn would(&self, gvr: &GroupVersionResource, bypass: Option<&'static str>) {
        self.metrics.would(bypass);
        self.report.lock().would(gvr, bypass);
    }

    pub fn judged(&self, subject: &Subject, verdict: Verdict) {
        let (result, not_comparable) = match &verdict {
            Verdict::Match => ("match", None),
            Verdict::Difference(_) => ("difference", None),
            Verdict::NotComparable(why) => ("not_comparable", Some(*why)),
        };
        let labels = [subject.verb, subject.representation.as_str(), result];
        self.metrics.compared(&subject.gvr, labels, not_comparable);
        if let Verdict::Difference(difference) = &verdict
            && let Some(left_out) = self.log_rate.lock().take(Instant::now())
        {
            let difference = difference.told(&self.key);
            tracing::error!(
                resource = %subject.gvr,
                verb = subject.verb,
                representation = subject.representation.as_str(),
                resource_version = subject.version,
                %difference,
                left_out,
                "the cache would have answered differently"
            );
        }
        self.report.lock().judged(subject, &verdict, &self.key);
    }

    /// Notes that an extension API server shows callers different objects.
    pub fn withdrawn(&self, gvr: &GroupVersionResource) {
        self.metrics.withdrawn();
        tracing::warn!(
            resource = %gvr,
            "its server shows callers different things: cache.aggregated is not believed of it \
             until that changes"
        );
    }

    /// Notes the cost of an answer at upstream and here.
    pub fn cost(&self, gvr: &GroupVersionResource, upstream: Duration, here: Duration, bytes: u64) {
        self.metrics.cost(upstream, here, bytes);
        self.report.lock().cost(gvr, upstream, here, bytes);
    }

    pub fn report(&self) -> Report {
        self.report.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use prometheus::Registry;

    use super::*;

    fn shadow() -> Shadow {
        let metrics = ShadowMetrics::register(&Registry::new(), Arc::default()).unwrap();
        Shadow::new(metrics, FingerprintKey::random().unwrap())
    }

    fn caller(name: &str) -> Option<Arc<str>> {
        Some(name.into())
    }

    #[test]
    fn all_answers_together_hold_no_more() {
        let shadow = shadow();
        let mut one = shadow.begin(caller("one"), 10);
        assert!((0..5).all(|_| one.grow(1).is_ok()));
        assert!(one.grow(1).is_err(), "a half is left for others");
        let mut other = shadow.begin(caller("other"), 10);
        assert_eq!(other.grow(3), Ok(()));
        assert!(other.grow(1).is_err());
        one.shrink(3);
        assert_eq!(other.grow(1), Ok(()));
        // No limit for each caller applies to apifront's own user.
        let mut own = shadow.begin(None, 10);
        assert_eq!(own.grow(4), Ok(()));
        assert!(own.grow(1).is_err());
        assert!(own.grow(usize::MAX).is_err());
        drop((one, other, own));
        assert_eq!((shadow.bytes.held(), shadow.bytes.callers()), (0, 0));
    }

    #[test]
    fn one_callers_reads_are_not_all_that_is_compared() {
        let shadow = shadow();
        let followed: Vec<_> = (0..MAX_WATCHES)
            .filter_map(|_| shadow.watch(caller("greedy")))
            .collect();
        assert_eq!(followed.len(), MAX_WATCHES / 2);
        let others: Vec<_> = (0..MAX_WATCHES / 4)
            .filter_map(|_| shadow.watch(caller("jane")))
            .collect();
        assert_eq!(others.len(), MAX_WATCHES / 4);

        let turn = |name| shadow.turn(caller(name)).boxed();
        let held: Vec<_> = (0..2).map(|_| turn("greedy").now_or_never()).collect();
        assert!(held.iter().all(|turn| matches!(turn, Some(Ok(_)))));
        let mut waiting: Vec<_> = (0..TURNS.waiting).map(|_| turn("greedy")).collect();
        assert!(waiting.iter_mut().all(|turn| turn.now_or_never().is_none()));
        let mut jane = turn("jane");
        assert!((&mut jane).now_or_never().is_none());
        let newest = waiting.pop().and_then(FutureExt::now_or_never);
        assert!(matches!(newest, Some(Err(QueueFull))));
        drop(held);
        assert!(matches!(jane.now_or_never(), Some(Ok(_))));
    }
}
