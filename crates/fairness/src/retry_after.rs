//! The `Retry-After` of a level. It is at most kube-apiserver's ([`DroppedRequests`]),
//! which doubles while requests are refused, and so tells clients to wait when the
//! queues are empty again. It is less if there will be room sooner, at the pace at which
//! requests ended when some were refused lately. Refused clients are spread over the
//! seconds in which there will be room for them if the level becomes twice as quick.

use std::time::Duration;

use crate::dropped_requests::{DroppedRequests, MAX_RETRY_AFTER_SECONDS, MIN_RETRY_AFTER_SECONDS};

/// The pace is measured over at least this time.
const MEASURED: Duration = Duration::from_secs(1);
/// A herd shakes hands before it is quick, and who was told a time does not come sooner.
/// So the level is expected to become quicker by this. A client that comes too early is
/// refused again, which costs little. An idle level costs everybody's time.
const QUICKER: f64 = 2.0;
/// If nobody was refused for this time, the level was perhaps idle, so this tells no pace.
const LULL: Duration = Duration::from_secs(3);
/// After this time without a refusal nothing is known. All who were told to wait have
/// come back by then.
const FORGOTTEN: Duration = Duration::from_secs(MAX_RETRY_AFTER_SECONDS);
/// The longest `Retry-After` leads from the present second to the last of these.
const SECONDS: usize = MAX_RETRY_AFTER_SECONDS as usize + 1;

#[derive(Debug)]
pub(crate) struct RetryAfter {
    dropped: DroppedRequests,
    /// The requests of the level that have ended.
    ended: u64,
    /// The time of the last refusal, since 1970.
    refused: Duration,
    measured: Measured,
    per_second: Option<f64>,
    /// The clients that were told to come back in each second, by the remainder of the
    /// second.
    told: [Told; SECONDS],
}

/// The beginning of a measurement of the pace.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    since: Duration,
    ended: u64,
}

/// Returns the place of a second in `told`.
fn place(second: u64) -> usize {
    let place = second.checked_rem(SECONDS as u64).unwrap_or_default();
    usize::try_from(place).unwrap_or_default()
}

#[derive(Clone, Copy, Debug, Default)]
struct Told {
    second: u64,
    clients: u64,
}

impl Default for RetryAfter {
    fn default() -> Self {
        Self {
            dropped: DroppedRequests::default(),
            ended: 0,
            refused: Duration::ZERO,
            measured: Measured::default(),
            per_second: None,
            told: [Told::default(); SECONDS],
        }
    }
}

impl RetryAfter {
    /// Counts a request that has ended.
    pub(crate) fn ended(&mut self) {
        self.ended = self.ended.wrapping_add(1);
    }

    /// Counts a refusal at a time since 1970.
    pub(crate) fn refused(&mut self, now: Duration) {
        let lull = now.saturating_sub(self.refused);
        if lull > FORGOTTEN {
            self.dropped = DroppedRequests::default();
            self.per_second = None;
        }
        if lull > LULL {
            self.measure_since(now);
        }
        self.refused = now;
        self.dropped.record(now.as_secs());
        let measured = now.saturating_sub(self.measured.since);
        if measured >= MEASURED {
            let ended = self.ended.wrapping_sub(self.measured.ended);
            self.per_second = Some(ended as f64 / measured.as_secs_f64());
            self.measure_since(now);
        }
    }

    fn measure_since(&mut self, now: Duration) {
        self.measured = Measured {
            since: now,
            ended: self.ended,
        };
    }

    /// Returns the seconds that a refused client is to wait, while `waiting` requests
    /// wait in the queues: until half of them wait, with those who were told to come
    /// back by then. Each call counts as a client that will come back.
    pub(crate) fn tell(&mut self, now: Duration, waiting: usize) -> u64 {
        let at_most = self.dropped.retry_after();
        let Some(per_second) = self.per_second else {
            return at_most;
        };
        let per_second = per_second * QUICKER;
        let second = now.as_secs();
        let half = waiting as f64 / 2.0;
        let mut left = waiting as f64;
        let has_room = |after: &u64| {
            left += self.clients(second.saturating_add(*after)) as f64;
            left = (left - per_second).max(0.0);
            left <= half
        };
        let mut seconds = MIN_RETRY_AFTER_SECONDS..at_most;
        let after = seconds.find(has_room).unwrap_or(at_most);
        self.expect_client(second.saturating_add(after));
        after
    }

    /// Returns how many clients were told to come back in this second.
    fn clients(&self, second: u64) -> u64 {
        let told = self.told.get(place(second));
        told.filter(|told| told.second == second)
            .map_or(0, |told| told.clients)
    }

    fn expect_client(&mut self, second: u64) {
        let clients = self.clients(second).saturating_add(1);
        if let Some(told) = self.told.get_mut(place(second)) {
            *told = Told { second, clients };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const START: u64 = 1_000;

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    fn end(level: &mut RetryAfter, requests: usize) {
        (0..requests).for_each(|_| level.ended());
    }

    /// Returns a level that has refused five clients in each second, while ten requests
    /// ended, for so long that kube-apiserver would tell clients the longest time.
    fn busy_until(second: u64) -> RetryAfter {
        let mut level = RetryAfter::default();
        for second in second - 40..=second {
            end(&mut level, 10);
            (0..5).for_each(|_| level.refused(at(second)));
        }
        assert_eq!(level.dropped.retry_after(), MAX_RETRY_AFTER_SECONDS);
        level
    }

    #[test]
    fn without_a_pace_it_is_that_of_kube_apiserver() {
        let mut level = RetryAfter::default();
        let mut theirs = DroppedRequests::default();
        for second in START..START + 40 {
            for _ in 0..5 {
                level.refused(at(second));
                theirs.record(second);
                assert_eq!(level.tell(at(second), 100), theirs.retry_after());
            }
        }
        assert_eq!(level.tell(at(START + 40), 100), MAX_RETRY_AFTER_SECONDS);
    }

    #[test]
    fn clients_come_back_when_there_is_room() {
        let mut level = busy_until(START);
        // 80 requests wait, and ten end in a second, perhaps 20 soon. Half of them are
        // left after two seconds, and 20 clients can come in each second from then on.
        let told: Vec<u64> = (0..45).map(|_| level.tell(at(START), 80)).collect();
        assert_eq!(told[..1], [2]);
        assert_eq!(told[1..21], [3; 20]);
        assert_eq!(told[21..41], [4; 20]);
        assert_eq!(told[41..], [5; 4]);
        assert_eq!(level.tell(at(START + 1), 80), 5);
        assert_eq!(level.tell(at(START + 1), 4_000), MAX_RETRY_AFTER_SECONDS);
        // The seconds of those who were told are over.
        assert_eq!(level.tell(at(START + 10), 0), 1);
    }

    #[test]
    fn a_lull_is_no_pace() {
        let mut level = busy_until(START);
        let later = START + 20;
        level.refused(at(later));
        assert_eq!(level.tell(at(later), 80), 2, "ten in a second, as before");
        let much_later = later + MAX_RETRY_AFTER_SECONDS + 1;
        level.refused(at(much_later));
        assert_eq!(level.tell(at(much_later), 4_000), 1, "nothing is known");
    }

    #[test]
    fn nobody_is_told_more_than_by_kube_apiserver() {
        let mut level = RetryAfter::default();
        for second in START..START + 3 {
            end(&mut level, 1);
            (0..3).for_each(|_| level.refused(at(second)));
        }
        let theirs = level.dropped.retry_after();
        assert!(theirs < 5, "{theirs}");
        for _ in 0..100 {
            assert!(level.tell(at(START + 3), 1_000) <= theirs);
        }
    }

    /// 30,000 clients come at once. The level ends 1,000 requests a second, but half as
    /// many in its first `slow` seconds, and 6,400 wait. Returns the seconds until the
    /// last one has its answer.
    fn last_of_a_herd(
        level: &mut RetryAfter,
        start: u64,
        slow: u64,
        tell: impl Fn(&mut RetryAfter, Duration, usize) -> u64,
    ) -> u64 {
        const SERVED: usize = 1_000;
        const PLACES: usize = 6_400;
        let mut waiting = 0;
        let mut back = BTreeMap::from([(start, 30_000)]);
        for second in start.. {
            for _ in 0..back.remove(&second).unwrap_or(0) {
                if waiting < PLACES {
                    waiting += 1;
                    continue;
                }
                level.refused(at(second));
                let after = tell(level, at(second), waiting);
                *back.entry(second + after).or_insert(0) += 1;
            }
            let served = match second < start + slow {
                true => SERVED / 2,
                false => SERVED,
            };
            let served = waiting.min(served);
            end(level, served);
            waiting -= served;
            if waiting == 0 && back.is_empty() {
                return second - start;
            }
        }
        unreachable!("seconds do not end")
    }

    #[test]
    fn a_level_is_not_idle_while_clients_are_told_to_wait() {
        let theirs = |level: &mut RetryAfter, _, _| level.dropped.retry_after();
        let theirs = last_of_a_herd(&mut RetryAfter::default(), START, 0, theirs);
        assert!(theirs > 60, "{theirs}");
        let mut level = RetryAfter::default();
        // Herds follow each other after nothing, little and much.
        for (start, slow, lasts) in [
            (START, 0, 29),
            (START + 35, 0, 29),
            (START + 70, 0, 29),
            (START + 900, 0, 29),
            (START + 1800, 8, 33),
        ] {
            let last = last_of_a_herd(&mut level, start, slow, RetryAfter::tell);
            assert_eq!(last, lasts, "from {start}");
        }
    }
}
