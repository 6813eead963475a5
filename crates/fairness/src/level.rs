//! A priority level.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Level {
    name: String,
    is_exempt: bool,
    /// 0 for none.
    max_seats: AtomicU64,
}

impl Level {
    pub(crate) fn new(name: &str, is_exempt: bool) -> Self {
        Self {
            name: name.to_owned(),
            is_exempt,
            max_seats: AtomicU64::new(0),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_exempt(&self) -> bool {
        self.is_exempt
    }

    pub(crate) fn max_seats(&self) -> Option<u64> {
        Some(self.max_seats.load(Ordering::Relaxed)).filter(|seats| *seats > 0)
    }
}
