//! Counts the events that found no room, and logs their number at intervals.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::metrics::{AuditMetrics, Plugin};

/// The shortest time between two log lines about lost events.
const TELL_EVERY: Duration = Duration::from_secs(10);

pub(super) struct LostEvents {
    metrics: AuditMetrics,
    untold: Mutex<Unreported>,
}

#[derive(Default)]
struct Unreported {
    events: u64,
    told: Option<Instant>,
}

impl Unreported {
    /// Adds a lost event. Returns the number of losses to log, if a log line is due.
    fn add(&mut self, now: Instant) -> Option<u64> {
        self.events = self.events.saturating_add(1);
        let since = self.told.map(|told| now.saturating_duration_since(told));
        if since.is_some_and(|since| since < TELL_EVERY) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.events))
    }
}

impl LostEvents {
    pub(super) fn new(metrics: AuditMetrics) -> Self {
        Self {
            metrics,
            untold: Mutex::default(),
        }
    }

    /// Counts an event that was lost because the caller's share of a backend's
    /// buffer was full.
    pub(super) fn buffered(&self, now: Instant) {
        self.metrics.lost(Plugin::Buffered, 1);
        if let Some(events) = self.untold.lock().add(now) {
            tracing::warn!(
                events,
                "audit events are lost: the buffer has no room for their callers"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_of_once_in_a_while() {
        let (mut untold, began) = (Unreported::default(), Instant::now());
        let told: Vec<_> = (0..25)
            .filter_map(|second| untold.add(began + Duration::from_secs(second)))
            .collect();
        assert_eq!(told, [1, 10, 10]);
    }
}
