//! Counts the bytes that answers leave out.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use kubernetes_wire::representation::{Encoding, managed_fields};

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

/// Returns the item without `metadata.managedFields`, and the bytes that it lacks then.
pub(crate) fn without_managed_fields(item: &Bytes, encoding: Encoding) -> Option<(Bytes, usize)> {
    let rest = managed_fields::without(encoding, item)?;
    let bytes = item.len().saturating_sub(rest.len());
    Some((rest, bytes))
}
