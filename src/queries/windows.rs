//! The live answers that are open.

use std::sync::Arc;

use apifront_shares::{Limits, Share, Shares};
use prometheus::{IntCounter, IntGauge, Registry};

/// The most live answers. One user has at most half of them.
const MAX_WINDOWS: usize = 4096;

pub struct Windows {
    shares: Shares<Arc<str>>,
    open: IntGauge,
    updates: IntCounter,
}

/// A live answer, which is open until this is dropped.
pub struct OpenWindow {
    _share: Share<Arc<str>>,
    open: IntGauge,
    updates: IntCounter,
}

impl Windows {
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let open = IntGauge::new(
            "apifront_query_windows",
            "Live answers of queries that are open.",
        )?;
        registry.register(Box::new(open.clone()))?;
        let updates = IntCounter::new(
            "apifront_query_window_updates_total",
            "Changes of live answers that were sent, each with all rows that changed.",
        )?;
        registry.register(Box::new(updates.clone()))?;
        Ok(Self {
            shares: Shares::new(Limits::shared(MAX_WINDOWS)),
            open,
            updates,
        })
    }

    /// Opens a live answer. Returns `None` if the user has too many.
    pub fn open(&self, user: Option<&str>) -> Option<OpenWindow> {
        let share = self.shares.take(user.map(Arc::from), 1).ok()?;
        self.open.inc();
        Some(OpenWindow {
            _share: share,
            open: self.open.clone(),
            updates: self.updates.clone(),
        })
    }
}

impl OpenWindow {
    pub fn updated(&self) {
        self.updates.inc();
    }
}

impl Drop for OpenWindow {
    fn drop(&mut self) {
        self.open.dec();
    }
}
