//! Time as the engine sees it. Tests set their own clock.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the clock was made: enough for 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub u64);

impl Time {
    /// Returns the time from `earlier` to this one, or zero if `earlier` is later.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub(crate) fn after(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

pub(crate) trait Clock: Send + Sync {
    fn now(&self) -> Time;
    /// Returns the time since 1970, for dumps and for counts by whole seconds.
    fn unix(&self, time: Time) -> Duration;
}

pub(crate) struct SystemClock {
    start: Instant,
    started_at: Duration,
}

impl SystemClock {
    pub(crate) fn shared() -> Arc<dyn Clock> {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Arc::new(Self {
            start: Instant::now(),
            started_at: since_1970.unwrap_or_default(),
        })
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        Time::default().after(self.start.elapsed())
    }

    fn unix(&self, time: Time) -> Duration {
        self.started_at.saturating_add(Duration::from_nanos(time.0))
    }
}
