//! Measures how late the main watch is, to know what a probe proves.
//!
//! A probe tells a version that upstream had reached. Events up to that version
//! may still be on their way on the main watch. A caller that waits for the
//! settling time relies on the promise that they have come. Each event shows
//! whether the promise was kept.
//!
//! ```text
//! probe answered ── settling ──▶ promised ──▶ events up to its version: broken
//!        └── events up to its version here: late, and in time
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The shortest settling time. Under load, events were measured to be up to 27
/// ms late.
const MIN_SETTLE: Duration = Duration::from_millis(30);

/// The longest settling time. If a resource needs longer, it is better to ask
/// upstream.
const MAX_SETTLE: Duration = Duration::from_millis(250);

/// An observed delay counts in full for this time, and half after that.
const FULL_WEIGHT_AGE: Duration = Duration::from_secs(600);

/// The most probes that are kept because events may still be late. Probes are
/// made one at a time, and each takes some milliseconds. At the bound the
/// oldest probe is dropped, and its promise counts as kept.
const MAX_PROBES: usize = 256;

/// The time for which a resource gives no promises after it broke one. It
/// doubles each time up to the longest, and is short again after a day without
/// a broken promise.
const FIRST_SUSPENSION: Duration = Duration::from_secs(600);
const MAX_SUSPENSION: Duration = Duration::from_secs(24 * 3600);

/// The most late events that are kept for metrics. Further ones are not
/// counted.
const MAX_UNREAD: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Probe {
    version: u64,
    answered: Instant,
    promised: bool,
}

/// An event that came after a probe had proven its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateEvent {
    pub by: Duration,
    /// A caller had been told that all events up to this version had come.
    pub broken: bool,
}

#[derive(Debug, Default)]
pub(super) struct WatchLag {
    /// Probes in the order of their answers. Their versions never decrease.
    probes: VecDeque<Probe>,
    observed: Option<(Duration, Instant)>,
    /// The start and the duration of the last suspension.
    suspended: Option<(Instant, Duration)>,
    /// Late events that metrics have not read yet.
    late: Vec<LateEvent>,
}

impl WatchLag {
    /// Returns the time to wait after a probe before its version may be
    /// promised.
    pub(super) fn settle(&self, now: Instant) -> Duration {
        let twice = match self.observed {
            Some((late, at)) if now.saturating_duration_since(at) <= FULL_WEIGHT_AGE => {
                late.saturating_mul(2)
            }
            // The delay counts half by now, and twice the half is the delay.
            Some((late, _)) => late,
            None => Duration::ZERO,
        };
        twice.clamp(MIN_SETTLE, MAX_SETTLE)
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

    pub(super) fn promise(&mut self, version: u64) {
        for probe in &mut self.probes {
            probe.promised |= probe.version <= version;
        }
    }

    /// Notes an event from the main watch. Returns how late it is, if it is
    /// late.
    pub(super) fn event(&mut self, version: u64, now: Instant) -> Option<LateEvent> {
        let late = self.probes.iter().filter(|p| p.version >= version);
        let first = late.clone().map(|p| p.answered).min();
        let broken = late.clone().any(|p| p.promised);
        self.reached(version);
        let by = now.saturating_duration_since(first?);
        let worse = match self.observed {
            Some((before, at)) => {
                by >= before || now.saturating_duration_since(at) > FULL_WEIGHT_AGE
            }
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

    pub(super) fn take(&mut self) -> Vec<LateEvent> {
        std::mem::take(&mut self.late)
    }

    /// Notes that the main watch has reached this version. No later event has
    /// this version or a lower one.
    pub(super) fn reached(&mut self, version: u64) {
        self.probes.retain(|p| p.version > version);
    }

    fn suspend(&mut self, now: Instant) {
        // Events for earlier probes would break promises for the same reason.
        self.probes.clear();
        let pause = match self.suspended {
            Some((since, pause))
                if now.saturating_duration_since(since) < pause.saturating_add(MAX_SUSPENSION) =>
            {
                pause.saturating_mul(2).min(MAX_SUSPENSION)
            }
            _ => FIRST_SUSPENSION,
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
        assert_eq!(watch_lag.settle(now), MIN_SETTLE);
        // No probe was answered yet.
        assert_eq!(watch_lag.event(5, now), None);
        watch_lag.answered(10, now);
        // The event is above the probe's version.
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
        // The version was reached before.
        assert_eq!(watch_lag.event(20, now + MS * 900), None);
        watch_lag.answered(30, now);
        assert_eq!(watch_lag.event(30, now + MS * 999), late(999));
        assert_eq!(watch_lag.settle(now), MAX_SETTLE);
        let later = now + FULL_WEIGHT_AGE * 2;
        watch_lag.answered(40, later);
        assert_eq!(watch_lag.event(40, later + MS), late(1));
        assert_eq!(watch_lag.settle(later), MIN_SETTLE);
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
            // This event is late for the same reason.
            assert_eq!(watch_lag.event(12, now + MS * 50), None);
            now += MS * 50;
            assert!(watch_lag.is_suspended(now + FIRST_SUSPENSION * pause - MS));
            now += FIRST_SUSPENSION * pause;
            assert!(!watch_lag.is_suspended(now));
        }
        now += MAX_SUSPENSION;
        watch_lag.answered(50, now);
        watch_lag.promise(50);
        assert!(watch_lag.event(50, now).unwrap().broken);
        assert!(!watch_lag.is_suspended(now + FIRST_SUSPENSION));
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
