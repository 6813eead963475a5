//! Telling the log about lists that take long.

use std::time::{Duration, Instant};

use kubernetes_wire::api::GroupVersionResource;

/// Between two lines about one list.
const PERIOD: Duration = Duration::from_secs(10);

pub(super) struct Progress<'a> {
    gvr: &'a GroupVersionResource,
    began: Instant,
    next: Instant,
}

impl<'a> Progress<'a> {
    pub(super) fn new(gvr: &'a GroupVersionResource, now: Instant) -> Self {
        Self {
            gvr,
            began: now,
            next: now + PERIOD,
        }
    }

    /// So many objects have come.
    pub(super) fn objects(&mut self, count: usize, now: Instant) {
        if now < self.next {
            return;
        }
        self.next = now + PERIOD;
        let took = now.saturating_duration_since(self.began);
        tracing::info!(resource = %self.gvr, objects = count, ?took, "cache is filling");
    }
}
