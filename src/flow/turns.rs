//! A resource that requests with seats take turns to use. Each user has a part of
//! it, and a request that finds no part free waits.

use std::sync::Arc;
use std::time::Duration;

use apifront_shares::{Asked, FairQueue, QueueFull, QueueLimits};
use prometheus::IntGauge;
use tokio::time::{Instant, timeout};

use super::Rejected;
use crate::metrics::PoolMetrics;

/// A request's part of the resource, until this is dropped.
pub(super) type Turn = apifront_shares::Turn<Arc<str>>;

/// The most waiting requests of all users together. Each holds some KB. Beyond this,
/// the last request of the user with the most is refused.
const MOST_WAITING: usize = 16_384;

#[derive(Debug)]
pub(super) struct Turns {
    queue: Arc<FairQueue<Arc<str>>>,
    metrics: PoolMetrics,
}

impl Turns {
    /// Makes turns with a total weight of `total`. One user may have `of_one` of it,
    /// and `waiting_of_one` waiting requests.
    pub(super) fn new(
        total: usize,
        of_one: usize,
        waiting_of_one: usize,
        metrics: PoolMetrics,
    ) -> Self {
        let queue = FairQueue::new(QueueLimits {
            at_a_time: total,
            at_a_time_of_one: of_one,
            waiting: MOST_WAITING,
            waiting_of_one,
        });
        Self { queue, metrics }
    }

    pub(super) fn try_turn(&self, user: &str, weight: usize) -> Option<Turn> {
        self.queue.try_take(&user.into(), weight)
    }

    /// Takes a turn, waiting for at most `wait`. Cancel-safe.
    pub(super) async fn turn(
        &self,
        user: &str,
        weight: usize,
        wait: Duration,
    ) -> Result<Turn, Rejected> {
        let queued = match self.queue.ask(&user.into(), weight) {
            Ok(Asked::Turn(turn)) => return Ok(turn),
            Ok(Asked::Queued(queued)) => queued,
            Err(QueueFull) => return Err(self.reject(Rejected::QueueFull)),
        };
        let waiting = Waiting::count(&self.metrics.waiting);
        let began = Instant::now();
        let came = timeout(wait, queued.turn()).await;
        self.metrics
            .waited(began.elapsed(), matches!(came, Ok(Ok(_))));
        drop(waiting);
        match came {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(QueueFull)) => Err(self.reject(Rejected::QueueFull)),
            Err(_) => Err(self.reject(Rejected::TimeOut)),
        }
    }

    /// Returns the weight of all taken turns.
    pub(super) fn taken(&self) -> usize {
        self.queue.taken()
    }

    fn reject(&self, rejected: Rejected) -> Rejected {
        self.metrics.rejected(rejected.as_str());
        rejected
    }
}

/// A waiting request, which is counted until this is dropped.
struct Waiting<'a>(&'a IntGauge);

impl<'a> Waiting<'a> {
    fn count(waiting: &'a IntGauge) -> Self {
        waiting.inc();
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use prometheus::Registry;

    use super::*;
    use crate::metrics::FlowMetrics;

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_a_turn_a_deadline_or_the_request() {
        let metrics = FlowMetrics::register(&Registry::new()).unwrap();
        let turns = Turns::new(1, 0, 1, metrics.pool("test"));
        let wait = Duration::from_secs(15);
        let held = turns.turn("a", 1, wait).await.unwrap();
        let late = turns.turn("b", 1, wait).await;
        assert_eq!(late.unwrap_err(), Rejected::TimeOut);
        let mut waits = turns.turn("a", 1, wait).boxed();
        assert!((&mut waits).now_or_never().is_none());
        let full = turns.turn("a", 1, wait).now_or_never().unwrap();
        assert_eq!(full.unwrap_err(), Rejected::QueueFull);
        let mut gone = turns.turn("c", 1, wait).boxed();
        assert!((&mut gone).now_or_never().is_none());
        assert_eq!(turns.metrics.waiting.get(), 2);
        drop(gone);
        drop(held);
        assert!((&mut waits).now_or_never().unwrap().is_ok());
        assert_eq!(turns.metrics.waiting.get(), 0);
        assert!(turns.queue.is_idle());
    }
}
