//! The times of a watch's bookmarks and of its end.

use std::time::Duration;

use tokio::time::Instant;

/// kube-apiserver's bookmark period.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);

const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// The longest duration of a watch. Clients may ask for more than an `Instant`
/// can hold, and a watch of decades never ends in practice.
const MAX_WATCH_TIME: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// The deadline of one watch and the time of its next bookmark.
pub(super) struct BookmarkTimer {
    deadline: Instant,
    next: Instant,
    period: Duration,
}

impl BookmarkTimer {
    pub(super) fn new(now: Instant, lasts: Duration) -> Self {
        let deadline = after(now, lasts);
        Self {
            deadline,
            next: next_bookmark(now, deadline, BOOKMARK_PERIOD),
            period: BOOKMARK_PERIOD,
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the time of the next bookmark or the deadline, whichever comes
    /// first.
    pub(super) fn next_wake(&self) -> Instant {
        self.deadline.min(self.next)
    }

    /// Tells whether a bookmark is due. If so, the next bookmark is scheduled.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let due = now >= self.next;
        if due {
            self.next = next_bookmark(now, self.deadline, self.period);
        }
        due
    }

    #[cfg(test)]
    pub(super) fn set_period(&mut self, period: Duration, now: Instant) {
        self.period = period;
        self.next = next_bookmark(now, self.deadline, period);
    }
}

fn after(now: Instant, time: Duration) -> Instant {
    now.checked_add(time.min(MAX_WATCH_TIME)).unwrap_or(now)
}

fn next_bookmark(now: Instant, deadline: Instant, period: Duration) -> Instant {
    let regular = after(now, period);
    match deadline.checked_sub(BOOKMARK_BEFORE_END) {
        Some(last) if last > now => regular.min(last),
        Some(_) | None => regular,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_bookmark_comes_before_the_deadline() {
        let now = Instant::now();
        for (lasts, first) in [(600, 60), (61, 59), (30, 28), (1, 60)] {
            let timer = BookmarkTimer::new(now, Duration::from_secs(lasts));
            assert_eq!(timer.next, now + Duration::from_secs(first), "{lasts}");
        }
        let mut timer = BookmarkTimer::new(now, Duration::from_secs(90));
        assert!(!timer.take_due(now));
        assert!(timer.take_due(now + BOOKMARK_PERIOD));
        assert_eq!(timer.next, now + Duration::from_secs(88));
        assert!(BookmarkTimer::new(now, Duration::MAX).deadline() > now);
    }
}
