//! Whether somebody asks for a document: then it is checked more often.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often a document is checked.
#[derive(Clone, Copy, Debug)]
pub struct Rhythm {
    /// Between two checks while somebody asks for the document.
    pub active: Duration,
    /// Between two checks while nobody does.
    pub idle: Duration,
    /// How long after the last request somebody still counts as asking.
    pub active_for: Duration,
}

/// When a document was last asked for.
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

    /// Notes that somebody asks now. The first after a pause wakes the task that
    /// checks.
    pub fn note(&self) {
        let now = Instant::now();
        let before = self.asked.lock().replace(now);
        let lasts = |then: Instant| now.saturating_duration_since(then) <= self.rhythm.active_for;
        if !before.is_some_and(lasts) {
            self.wake();
        }
    }

    /// Ends the pause of the task that checks.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Returns when [`Interest::wake`] is called.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Returns when somebody has asked for the first time.
    pub async fn begins(&self) {
        while self.asked.lock().is_none() {
            self.woken().await;
        }
    }

    /// The time between two checks as of now.
    pub fn period(&self) -> Duration {
        let asked = *self.asked.lock();
        if asked.is_some_and(|then| then.elapsed() < self.rhythm.active_for) {
            self.rhythm.active
        } else {
            self.rhythm.idle
        }
    }
}
