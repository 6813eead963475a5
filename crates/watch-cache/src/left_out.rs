//! Counts the bytes that answers leave out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the bytes of `metadata.managedFields` that some answers do not have, before
/// they are compressed. All clones count together.
#[derive(Clone, Debug, Default)]
pub struct LeftOut(Arc<AtomicU64>);

impl LeftOut {
    pub(crate) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
