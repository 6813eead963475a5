//! Shadow mode (`cache.mode: Shadow`): every read is forwarded, and for a
//! sample of them the answer from memory is made as well, at the version that
//! upstream's answer shows. This room compares the two and remembers what it
//! found. `server/answer/shadow` makes the answers.

mod age;
mod body;
mod budget;
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

use apifront_watch_cache::ShadowLimits;
use apifront_watch_cache::fingerprint::FingerprintKey;
use kubernetes_wire::api::GroupVersionResource;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::metrics::ShadowMetrics;

pub use body::{Body, Unreadable, compare as compare_bodies, compare_pieces, plain};
pub use budget::{Budget, Full, HeldBytes};
pub use columns::Columns;
pub use difference::{Difference, ToldDifference};
pub use frames::{Frame, FrameReader};
pub use headers::compare as compare_headers;
use log_rate::LogRate;
pub use report::{Found, OfResource, Report, Subject, Tally, Verdict};
pub use representation::Label;
pub use version::of_answer as version_of;

/// The answers that are made and compared at a time. More wait for their turn,
/// with the bytes that they hold.
const AT_A_TIME: usize = 2;

/// The watches that are followed at a time. Each holds a watch of the cache.
const WATCHES: usize = 256;

/// The results of shadow mode, and the limits of its work.
pub struct Shadow {
    pub budget: Arc<Budget>,
    pub turns: Arc<Semaphore>,
    pub watches: Arc<Semaphore>,
    metrics: ShadowMetrics,
    report: Mutex<Report>,
    log_rate: Mutex<LogRate>,
    key: FingerprintKey,
}

impl Shadow {
    /// `key` makes the fingerprints of contents that differ.
    pub fn new(metrics: ShadowMetrics, key: FingerprintKey) -> Self {
        Self {
            budget: Arc::default(),
            turns: Arc::new(Semaphore::new(AT_A_TIME)),
            watches: Arc::new(Semaphore::new(WATCHES)),
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

    /// Notes what the cache would have done with a read: answer it, or forward
    /// it for a reason.
    pub fn would(&self, gvr: &GroupVersionResource, bypass: Option<&'static str>) {
        self.metrics.would(bypass);
        self.report.lock().would(gvr, bypass);
    }

    /// Notes the result of a comparison.
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

    /// Notes that an extension API server does not show all callers the same.
    pub fn withdrawn(&self, gvr: &GroupVersionResource) {
        self.metrics.withdrawn();
        tracing::warn!(
            resource = %gvr,
            "its server shows callers different things: cache.aggregated is not believed of it \
             until that changes"
        );
    }

    /// Notes what an answer cost upstream and what it cost here.
    pub fn cost(&self, gvr: &GroupVersionResource, upstream: Duration, here: Duration, bytes: u64) {
        self.metrics.cost(upstream, here, bytes);
        self.report.lock().cost(gvr, upstream, here, bytes);
    }

    /// Returns what was found since the process started.
    pub fn report(&self) -> Report {
        self.report.lock().clone()
    }
}
