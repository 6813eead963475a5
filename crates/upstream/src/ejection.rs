//! A server that answers several requests in turn with errors is ejected: for a while,
//! other servers are preferred.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use super::OutlierDetection;

/// Until when a server is ejected, and the errors that may lead to it.
#[derive(Default)]
pub(super) struct Ejection {
    /// The number of error answers since the last answer that was not an error.
    errors: AtomicU32,
    until: Mutex<Option<Instant>>,
}

impl Ejection {
    pub(super) fn is_on(&self, now: Instant) -> bool {
        self.until.lock().is_some_and(|until| until > now)
    }

    /// Records the code of an answer.
    pub(super) fn answered(&self, server: &str, code: u16, outliers: OutlierDetection) {
        if outliers.consecutive_errors == 0 {
            return;
        }
        if code < 500 {
            self.errors.store(0, Ordering::Relaxed);
            return;
        }
        let before = self.errors.fetch_add(1, Ordering::Relaxed);
        let errors = before.saturating_add(1);
        if errors >= outliers.consecutive_errors {
            self.errors.store(0, Ordering::Relaxed);
            *self.until.lock() = Instant::now().checked_add(outliers.ejection_time);
            tracing::warn!(
                server, errors, code, after = ?outliers.ejection_time,
                "server answers with errors, others are asked"
            );
        }
    }
}
