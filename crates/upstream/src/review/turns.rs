//! The turns of reviews: a fair queue of callers, and how many reviews the API server
//! has at a time.
//!
//! More than it can work on at once help nobody: they wait there instead of here, and
//! all others who ask it something wait behind them. So the number falls while answers
//! take long, compared with those of the last minutes when few were asked. It rises
//! while somebody waits and answers are quick. (TCP Vegas does so with packets.)

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use apifront_shares::{FairQueue, QueueFull, QueueLimits, Turn};
use parking_lot::Mutex;
use tokio::time::Instant;

/// However slow the answers are, so many reviews are asked for at a time.
const FEWEST: usize = 8;

/// Answers are slow when they take more than this many times the usual time, and
/// [`NOISE`] in addition.
const SLOW: u32 = 2;

/// Answers are not slow because of a difference as small as this.
const NOISE: Duration = Duration::from_millis(1);

/// The pace learns the usual time anew after this time, with few reviews at a time.
const USUAL_FOR: Duration = Duration::from_secs(60);

/// The turns of callers `C`. Limits are the most that there can be; callers' own limits
/// fall with the total.
pub struct ReviewTurns<C: Clone + Eq + Hash> {
    queue: Arc<FairQueue<C>>,
    limits: QueueLimits,
    pace: Mutex<Pace>,
}

impl<C: Clone + Eq + Hash> ReviewTurns<C> {
    pub fn new(limits: QueueLimits) -> Self {
        let pace = Pace::new(limits.at_a_time, Instant::now());
        let queue = FairQueue::new(QueueLimits {
            at_a_time: pace.at_a_time,
            at_a_time_of_one: of_one(&limits, pace.at_a_time),
            ..limits
        });
        Self {
            queue,
            limits,
            pace: Mutex::new(pace),
        }
    }

    pub(super) async fn turn(&self, caller: &C) -> Result<Turn<C>, QueueFull> {
        self.queue.take(caller).await
    }

    /// Returns the number of reviews that wait for a turn.
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Notes how long the API server took for a review.
    pub(super) fn answered(&self, took: Duration) {
        let somebody_waits = self.waiting() > 0;
        let mut pace = self.pace.lock();
        let before = pace.at_a_time;
        pace.answered(took, somebody_waits, Instant::now());
        if pace.at_a_time != before {
            let of_one = of_one(&self.limits, pace.at_a_time);
            self.queue.set_turns(pace.at_a_time, of_one);
        }
    }
}

/// Returns a caller's part of so many turns; 0 means no limit, as in `limits`.
fn of_one(limits: &QueueLimits, at_a_time: usize) -> usize {
    let most = limits.at_a_time_of_one;
    let part = most.saturating_mul(at_a_time).checked_div(limits.at_a_time);
    part.unwrap_or(most).max(most.min(1))
}

/// Decides how many reviews the API server has at a time.
struct Pace {
    most: usize,
    at_a_time: usize,
    /// The times of the answers since the last decision.
    round: Vec<Duration>,
    /// The quickest rounds of this minute and of the one before.
    quickest: [Option<Duration>; 2],
    minute: Instant,
}

impl Pace {
    fn new(most: usize, now: Instant) -> Self {
        Self {
            most,
            at_a_time: FEWEST.min(most),
            round: Vec::new(),
            quickest: [None; 2],
            minute: now,
        }
    }

    fn answered(&mut self, took: Duration, somebody_waits: bool, now: Instant) {
        self.round.push(took);
        if self.round.len() < self.at_a_time {
            return;
        }
        // An authorizer may be slow about some users: a quarter of quick answers shows
        // that the API server is not.
        let quarter = self.round.len() / 4;
        let (_, took, _) = self.round.select_nth_unstable(quarter);
        let took = *took;
        self.round.clear();
        if now.saturating_duration_since(self.minute) >= USUAL_FOR {
            self.minute = now;
            self.quickest = [None, self.quickest[0]];
            if somebody_waits {
                self.set(FEWEST);
                return;
            }
        }
        let [this, before] = &mut self.quickest;
        let quickest = this.map_or(took, |this| this.min(took));
        *this = Some(quickest);
        let usual = before.map_or(quickest, |before| before.min(quickest));
        let quarter = self.at_a_time / 4;
        if took > usual.saturating_mul(SLOW).saturating_add(NOISE) {
            self.set(self.at_a_time.saturating_sub(quarter));
        } else if somebody_waits {
            self.set(self.at_a_time.saturating_add(quarter).saturating_add(1));
        }
    }

    fn set(&mut self, at_a_time: usize) {
        self.at_a_time = at_a_time.max(FEWEST).min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: QueueLimits = QueueLimits {
        at_a_time: 64,
        at_a_time_of_one: 16,
        waiting: 0,
        waiting_of_one: 0,
    };

    /// An API server that takes `alone` for a review, and `each` more for each of those
    /// that it has at the same time.
    struct Server {
        alone: Duration,
        each: Duration,
    }

    impl Server {
        /// Asks it until the number of reviews at a time does not change any more, and
        /// returns the number, or the two between which it goes to and fro.
        fn steady(&self, pace: &mut Pace, now: Instant) -> (usize, usize) {
            let mut last = Vec::new();
            for _ in 0..100 {
                for n in 0..pace.at_a_time {
                    let others = u32::try_from(pace.at_a_time).unwrap();
                    let took = self.alone + self.each * others + Duration::from_micros(n as u64);
                    pace.answered(took, true, now);
                }
                last.push(pace.at_a_time);
            }
            let last = &last[90..];
            (*last.iter().min().unwrap(), *last.iter().max().unwrap())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_gets_as_many_as_it_can_work_on() {
        let now = Instant::now();
        let ms = Duration::from_millis;
        for (alone, each, fewest, most) in [
            // It answers as quickly, however many there are: a network away, or idle.
            (ms(1), ms(0), 64, 64),
            (ms(100), ms(0), 64, 64),
            // One core: eight take 9 ms, and 18 take 19.
            (ms(1), ms(1), 12, 24),
            // It is slow, whatever is asked.
            (ms(0), ms(50), 12, 24),
        ] {
            let (least, greatest) = Server { alone, each }.steady(&mut Pace::new(64, now), now);
            assert!(
                least >= fewest && greatest <= most,
                "{alone:?} and {each:?}: {least} to {greatest}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_usual_is_learnt_anew() {
        let mut pace = Pace::new(64, Instant::now());
        let near = Server {
            alone: Duration::from_millis(1),
            each: Duration::ZERO,
        };
        assert_eq!(near.steady(&mut pace, Instant::now()), (64, 64));
        // Another API server answers now, in another place.
        let far = Server {
            alone: Duration::from_millis(30),
            each: Duration::ZERO,
        };
        assert_eq!(far.steady(&mut pace, Instant::now()), (FEWEST, FEWEST));
        for _ in 0..3 {
            tokio::time::advance(USUAL_FOR).await;
            pace.answered(Duration::from_millis(30), true, Instant::now());
            far.steady(&mut pace, Instant::now());
        }
        assert_eq!(far.steady(&mut pace, Instant::now()), (64, 64));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_answers_about_some_slow_down_nobody() {
        let (mut pace, now) = (Pace::new(64, Instant::now()), Instant::now());
        for n in 0..10_000 {
            let ms = if n % 2 == 0 { 1 } else { 500 };
            pace.answered(Duration::from_millis(ms), true, now);
        }
        assert_eq!(pace.at_a_time, 64);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_changes_while_nobody_waits() {
        let (mut pace, now) = (Pace::new(64, Instant::now()), Instant::now());
        for _ in 0..1_000 {
            pace.answered(Duration::from_millis(1), false, now);
        }
        assert_eq!(pace.at_a_time, FEWEST);
    }

    #[test]
    fn a_caller_has_its_part_of_the_turns() {
        assert_eq!([8, 10, 32, 64].map(|n| of_one(&LIMITS, n)), [2, 2, 8, 16]);
        let few = QueueLimits {
            at_a_time: 1,
            at_a_time_of_one: 1,
            ..LIMITS
        };
        assert_eq!(of_one(&few, 1), 1);
        let without = QueueLimits {
            at_a_time_of_one: 0,
            ..LIMITS
        };
        assert_eq!(of_one(&without, 8), 0);
    }
}
