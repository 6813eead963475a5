//! How many requests may be in flight: kube-apiserver's
//! `--max-requests-inflight` and `--max-mutating-requests-inflight`
//! (k8s.io/apiserver `server/filters/maxinflight.go`).
//!
//! Upstreams protect themselves; this protects the memory of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::api::user::{MASTERS, UserInfo};
use crate::metrics::FlowMetrics;
use crate::request::RequestInfo;

/// The answer to a request over the limit. It is not a Status.
pub const TOO_MANY_REQUESTS_BODY: &str = "Too many requests, please try again later.\n";
/// Its Content-Type; `X-Content-Type-Options: nosniff` goes with it.
pub const TOO_MANY_REQUESTS_TYPE: &str = "text/plain; charset=utf-8";
/// Its `Retry-After`, in seconds.
pub const RETRY_AFTER: &str = "1";

/// How often the high-water marks are published, as in kube-apiserver.
const PUBLISH_EVERY: Duration = Duration::from_secs(1);

/// Which limit a request counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    ReadOnly,
    Mutating,
}

impl RequestKind {
    /// From the lower-case verb of the request's attributes.
    pub fn of(info: &RequestInfo) -> Self {
        if info.is_mutating() {
            Self::Mutating
        } else {
            Self::ReadOnly
        }
    }
}

/// One limit.
#[derive(Debug, Default)]
struct Lane {
    /// 0: none.
    limit: AtomicUsize,
    now: AtomicUsize,
    /// The most since it was last published.
    high: AtomicUsize,
}

/// Requests in flight in this process.
pub struct InFlight {
    read_only: Arc<Lane>,
    mutating: Arc<Lane>,
    metrics: FlowMetrics,
}

/// A place in flight, given back when dropped. Exempt requests hold none.
#[derive(Debug)]
pub struct Admitted(Option<Arc<Lane>>);

impl Drop for Admitted {
    fn drop(&mut self) {
        if let Some(lane) = &self.0 {
            lane.now.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The limit is reached: answer 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many requests in flight")]
pub struct TooManyRequests;

impl InFlight {
    pub fn new(max_read_only: usize, max_mutating: usize, metrics: FlowMetrics) -> Self {
        let this = Self {
            read_only: Arc::default(),
            mutating: Arc::default(),
            metrics,
        };
        this.set_limits(max_read_only, max_mutating);
        this
    }

    /// For a reloaded configuration. What is in flight stays.
    pub fn set_limits(&self, max_read_only: usize, max_mutating: usize) {
        self.read_only.limit.store(max_read_only, Ordering::Relaxed);
        self.mutating.limit.store(max_mutating, Ordering::Relaxed);
    }

    /// Takes a place, after authentication and before authorization.
    ///
    /// Long-running requests are exempt: they would hold their place for half
    /// an hour. So is `system:masters`, so that an administrator can always
    /// look.
    pub fn admit(
        &self,
        kind: RequestKind,
        long_running: bool,
        user: &UserInfo,
    ) -> Result<Admitted, TooManyRequests> {
        let lane = match kind {
            RequestKind::ReadOnly => &self.read_only,
            RequestKind::Mutating => &self.mutating,
        };
        if long_running {
            return Ok(Admitted(None));
        }
        let limit = lane.limit.load(Ordering::Relaxed);
        let place = lane
            .now
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |now| {
                (limit == 0 || now < limit).then_some(now + 1)
            });
        match place {
            Ok(before) => {
                lane.high.fetch_max(before + 1, Ordering::Relaxed);
                Ok(Admitted(Some(lane.clone())))
            }
            Err(_) if user.groups.iter().any(|g| g == MASTERS) => Ok(Admitted(None)),
            Err(_) => Err(TooManyRequests),
        }
    }

    /// Publishes the most requests in flight since the last call.
    pub fn publish(&self) {
        for (lane, gauge) in [
            (&self.read_only, &self.metrics.read_only),
            (&self.mutating, &self.metrics.mutating),
        ] {
            let now = lane.now.load(Ordering::Relaxed);
            let high = lane.high.swap(now, Ordering::Relaxed);
            gauge.set(i64::try_from(high.max(now)).unwrap_or(i64::MAX));
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

#[cfg(test)]
mod tests {
    use prometheus::Registry;

    use super::*;

    fn in_flight() -> InFlight {
        InFlight::new(2, 1, FlowMetrics::register(&Registry::new()).unwrap())
    }

    #[test]
    fn requests_over_the_limit_are_refused_until_one_ends() {
        let flow = in_flight();
        let user = UserInfo::default();
        let first = flow.admit(RequestKind::ReadOnly, false, &user).unwrap();
        let _second = flow.admit(RequestKind::ReadOnly, false, &user).unwrap();
        assert!(flow.admit(RequestKind::ReadOnly, false, &user).is_err());
        // The other lane is another lane.
        assert!(flow.admit(RequestKind::Mutating, false, &user).is_ok());
        drop(first);
        assert!(flow.admit(RequestKind::ReadOnly, false, &user).is_ok());
    }

    #[test]
    fn watches_and_administrators_are_exempt() {
        let flow = in_flight();
        let user = UserInfo::default();
        let admin = UserInfo {
            groups: vec![MASTERS.to_owned()],
            ..UserInfo::default()
        };
        let _watch = flow.admit(RequestKind::Mutating, true, &user).unwrap();
        let _write = flow.admit(RequestKind::Mutating, false, &user).unwrap();
        let _admins = flow.admit(RequestKind::Mutating, false, &admin).unwrap();
        assert!(flow.admit(RequestKind::Mutating, false, &user).is_err());
        assert!(flow.admit(RequestKind::Mutating, true, &user).is_ok());
    }

    #[test]
    fn zero_is_no_limit() {
        let flow = in_flight();
        flow.set_limits(0, 0);
        let user = UserInfo::default();
        let all: Vec<_> = (0..1000)
            .map(|_| flow.admit(RequestKind::Mutating, false, &user))
            .collect();
        assert!(all.iter().all(Result::is_ok));
    }

    #[test]
    fn the_gauge_shows_the_most_of_the_last_second() {
        let flow = in_flight();
        let user = UserInfo::default();
        let one = flow.admit(RequestKind::ReadOnly, false, &user).unwrap();
        drop(flow.admit(RequestKind::ReadOnly, false, &user).unwrap());
        for (expected, end) in [(2, None), (1, Some(one)), (1, None), (0, None)] {
            flow.publish();
            assert_eq!(flow.metrics.read_only.get(), expected);
            drop(end);
        }
    }
}
