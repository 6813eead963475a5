//! Logs the progress of lists that take long.

use std::time::{Duration, Instant};

use kubernetes_wire::api::GroupVersionResource;

/// The time between two lines about one list.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

pub(super) struct ListProgress<'a> {
    gvr: &'a GroupVersionResource,
    began: Instant,
    /// The time of the last line, or of the list's beginning.
    told: Instant,
}

impl<'a> ListProgress<'a> {
    pub(super) fn new(gvr: &'a GroupVersionResource, now: Instant) -> Self {
        Self {
            gvr,
            began: now,
            told: now,
        }
    }

    pub(super) fn objects(&mut self, count: usize, now: Instant) {
        if now.saturating_duration_since(self.told) < LOG_INTERVAL {
            return;
        }
        self.told = now;
        let took = now.saturating_duration_since(self.began);
        tracing::info!(resource = %self.gvr, objects = count, ?took, "cache is filling");
    }
}
