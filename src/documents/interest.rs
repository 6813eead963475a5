//! Records when callers ask for a document. A document that callers ask for is
//! checked more often.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub struct Rhythm {
    /// The time between two checks while callers ask for the document.
    pub active: Duration,
    /// The time between two checks while no caller does.
    pub idle: Duration,
    /// The time after a request for which the document counts as asked for.
    pub active_for: Duration,
}

impl Rhythm {
    /// The time between two requests to upstream for which no caller waits. Their
    /// answers are used when upstream does not answer.
    pub const OF_UPSTREAM: Self = Self {
        active: Duration::from_secs(30),
        idle: Duration::from_secs(300),
        active_for: Duration::from_secs(180),
    };
}

/// The time of the last request for a document.
#[derive(Debug)]
pub struct Interest {
    rhythm: Rhythm,
    asked: Mutex<Option<Instant>>,
    wake: Notify,
}

impl Interest {
    pub fn new(rhythm: Rhythm) -> Self {
        Self {
            rhythm,
            asked: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// Notes a caller's request. The first request after a pause wakes the task that
    /// checks the document.
    pub fn note(&self) {
        let now = Instant::now();
        let before = self.asked.lock().replace(now);
        let lasts = |then: Instant| now.saturating_duration_since(then) <= self.rhythm.active_for;
        if !before.is_some_and(lasts) {
            self.wake();
        }
    }

    /// Ends the pause of the task that checks the document.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits for [`Interest::wake`].
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Returns after the first request.
    pub async fn begins(&self) {
        while self.asked.lock().is_none() {
            self.woken().await;
        }
    }

    pub fn period(&self) -> Duration {
        let asked = *self.asked.lock();
        if asked.is_some_and(|then| then.elapsed() < self.rhythm.active_for) {
            self.rhythm.active
        } else {
            self.rhythm.idle
        }
    }
}
