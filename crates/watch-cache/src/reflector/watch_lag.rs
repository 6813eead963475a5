//! How late the main watch is: what a proof of freshness by a probe is worth.
//!
//! A probe tells a version that upstream had reached. Events up to it may still
//! be on their way on the main watch; whoever waits for the settling time
//! promises that they are not. Each event that comes says whether the promise
//! was kept.
//!
//! ```text
//! probe answered ── settling ──▶ promised ──▶ events up to its version: broken
//!        └── events up to its version here: late, and in time
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Events were up to 27 ms late in measurements under load.
const SETTLE: Duration = Duration::from_millis(30);

/// A resource that needs longer is better read upstream.
const MAX_SETTLE: Duration = Duration::from_millis(250);

/// What was observed counts for so long; half of it after that.
const OBSERVED: Duration = Duration::from_secs(600);

/// Probes that events may still be late for. There is one at a time, of some
/// milliseconds each; at the bound the oldest is believed to be kept.
const MAX_PROBES: usize = 256;

/// How long a resource that broke its promise promises nothing: doubled each
/// time, up to the longest, and short again after a day without.
const SUSPENDED: Duration = Duration::from_secs(600);
const LONGEST_SUSPENDED: Duration = Duration::from_secs(24 * 3600);

/// Late events that nobody has asked for; further ones are not counted.
const MAX_UNREAD: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Probe {
    version: u64,
    answered: Instant,
    promised: bool,
}

/// An event that came after a probe that had proven its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateEvent {
    pub by: Duration,
    /// Somebody had been told that it would not come any more.
    pub broken: bool,
}

#[derive(Debug, Default)]
pub(super) struct WatchLag {
    /// Answered in this order, of versions that do not go back.
    probes: VecDeque<Probe>,
    observed: Option<(Duration, Instant)>,
    /// When the last suspension began, and how long it lasts.
    suspended: Option<(Instant, Duration)>,
    /// Of interest to metrics, which ask for them now and then.
    late: Vec<LateEvent>,
}

impl WatchLag {
    /// How long to wait after a probe before its version is promised.
    pub(super) fn settle(&self, now: Instant) -> Duration {
        let twice = match self.observed {
            Some((late, at)) if now.saturating_duration_since(at) <= OBSERVED => {
                late.saturating_mul(2)
            }
            // Only half of it counts by now, and twice that is all of it.
            Some((late, _)) => late,
            None => Duration::ZERO,
        };
        twice.clamp(SETTLE, MAX_SETTLE)
    }

    pub(super) fn answered(&mut self, version: u64, now: Instant) {
        if self.probes.len() >= MAX_PROBES {
            self.probes.pop_front();
        }
        self.probes.push_back(Probe {
            version,
            answered: now,
            promised: false,
        });
    }

    /// Everything up to this version is said to have come.
    pub(super) fn promise(&mut self, version: u64) {
        for probe in &mut self.probes {
            probe.promised |= probe.version <= version;
        }
    }

    /// The main watch brought an event of this version.
    pub(super) fn event(&mut self, version: u64, now: Instant) -> Option<LateEvent> {
        let late = self.probes.iter().filter(|p| p.version >= version);
        let first = late.clone().map(|p| p.answered).min();
        let broken = late.clone().any(|p| p.promised);
        self.reached(version);
        let by = now.saturating_duration_since(first?);
        let worse = match self.observed {
            Some((before, at)) => by >= before || now.saturating_duration_since(at) > OBSERVED,
            None => true,
        };
        if worse {
            self.observed = Some((by, now));
        }
        if broken {
            self.suspend(now);
        }
        let late = LateEvent { by, broken };
        if self.late.len() < MAX_UNREAD {
            self.late.push(late);
        }
        Some(late)
    }

    /// What was late since the last call.
    pub(super) fn take(&mut self) -> Vec<LateEvent> {
        std::mem::take(&mut self.late)
    }

    /// The main watch is at this version: nothing up to it can be late.
    pub(super) fn reached(&mut self, version: u64) {
        self.probes.retain(|p| p.version > version);
    }

    fn suspend(&mut self, now: Instant) {
        // Probes of the time before break their promises together.
        self.probes.clear();
        let pause = match self.suspended {
            Some((since, pause))
                if now.saturating_duration_since(since)
                    < pause.saturating_add(LONGEST_SUSPENDED) =>
            {
                pause.saturating_mul(2).min(LONGEST_SUSPENDED)
            }
            _ => SUSPENDED,
        };
        self.suspended = Some((now, pause));
    }

    pub(super) fn is_suspended(&self, now: Instant) -> bool {
        let lasts = |(since, pause)| now.saturating_duration_since(since) < pause;
        self.suspended.is_some_and(lasts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn events_in_time_and_late() {
        let now = Instant::now();
        let mut watch_lag = WatchLag::default();
        assert_eq!(watch_lag.settle(now), SETTLE);
        // Nothing was asked.
        assert_eq!(watch_lag.event(5, now), None);
        watch_lag.answered(10, now);
        // After what was asked about.
        assert_eq!(watch_lag.event(11, now + MS), None);
        watch_lag.answered(20, now);
        let late = |by: u32| {
            Some(LateEvent {
                by: MS * by,
                broken: false,
            })
        };
        assert_eq!(watch_lag.event(15, now + MS * 20), late(20));
        assert_eq!(watch_lag.settle(now), MS * 40);
        assert_eq!(watch_lag.event(20, now + MS * 10), late(10));
        assert_eq!(watch_lag.settle(now), MS * 40);
        // All is there.
        assert_eq!(watch_lag.event(20, now + MS * 900), None);
        watch_lag.answered(30, now);
        assert_eq!(watch_lag.event(30, now + MS * 999), late(999));
        assert_eq!(watch_lag.settle(now), MAX_SETTLE);
        let later = now + OBSERVED * 2;
        watch_lag.answered(40, later);
        assert_eq!(watch_lag.event(40, later + MS), late(1));
        assert_eq!(watch_lag.settle(later), SETTLE);
        assert!(!watch_lag.is_suspended(now));
    }

    #[test]
    fn a_broken_promise_has_consequences() {
        let mut now = Instant::now();
        let mut watch_lag = WatchLag::default();
        for pause in [1, 2, 4] {
            watch_lag.answered(10, now);
            watch_lag.answered(12, now + MS);
            watch_lag.promise(12);
            let late = watch_lag.event(11, now + MS * 50).unwrap();
            assert_eq!(
                late,
                LateEvent {
                    by: MS * 49,
                    broken: true
                }
            );
            // Of the same cause.
            assert_eq!(watch_lag.event(12, now + MS * 50), None);
            now += MS * 50;
            assert!(watch_lag.is_suspended(now + SUSPENDED * pause - MS));
            now += SUSPENDED * pause;
            assert!(!watch_lag.is_suspended(now));
        }
        now += LONGEST_SUSPENDED;
        watch_lag.answered(50, now);
        watch_lag.promise(50);
        assert!(watch_lag.event(50, now).unwrap().broken);
        assert!(!watch_lag.is_suspended(now + SUSPENDED));
    }

    #[test]
    fn a_bookmark_keeps_all_promises_up_to_it() {
        let now = Instant::now();
        let mut watch_lag = WatchLag::default();
        watch_lag.answered(10, now);
        watch_lag.promise(10);
        watch_lag.reached(10);
        assert_eq!(watch_lag.event(10, now + MS), None);
        for version in 0..1000 {
            watch_lag.answered(version, now);
        }
        assert!(watch_lag.probes.len() <= MAX_PROBES);
    }
}
