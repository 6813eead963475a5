//! When and in which forms clients use a resource.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::store::Demand;

/// The use that clients make of an entry.
pub struct Usage {
    began: Instant,
    /// The time of the last request, in milliseconds after `began`.
    used_ms: AtomicU64,
    demand: Arc<Demand>,
    /// The store was filled since the last [`Self::take_refilled`].
    refilled: AtomicBool,
}

impl Usage {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            began: now,
            used_ms: AtomicU64::new(0),
            demand: Arc::default(),
            refilled: AtomicBool::new(false),
        }
    }

    /// Takes over the demand of the former entry of the same resource.
    pub(super) fn succeed(&mut self, before: &Self) {
        self.demand = before.demand.clone();
    }

    /// Returns the forms in which clients list the resource.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    pub(super) fn touch(&self, now: Instant) {
        let millis = now.saturating_duration_since(self.began).as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        self.used_ms.fetch_max(millis, Ordering::Relaxed);
    }

    pub(super) fn unused_for(&self, now: Instant) -> Duration {
        let used = Duration::from_millis(self.used_ms.load(Ordering::Relaxed));
        now.saturating_duration_since(self.began)
            .saturating_sub(used)
    }

    pub(super) fn refilled(&self) {
        self.refilled.store(true, Ordering::Relaxed);
    }

    pub(super) fn take_refilled(&self) -> bool {
        self.refilled.swap(false, Ordering::Relaxed)
    }
}
