//! The bytes of upstream's answers that are held for comparison.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that are held now, of all answers.
#[derive(Debug, Default)]
pub struct Budget(AtomicUsize);

/// There is no room for more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Bytes of the budget, which are given back when this is dropped.
#[derive(Debug)]
pub struct HeldBytes {
    budget: Arc<Budget>,
    most: usize,
    bytes: usize,
}

impl Budget {
    /// Begins to hold bytes, of which all answers together hold `most`.
    pub fn begin(self: &Arc<Self>, most: usize) -> HeldBytes {
        HeldBytes {
            budget: self.clone(),
            most,
            bytes: 0,
        }
    }

    pub fn held(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl HeldBytes {
    /// Holds more bytes.
    pub fn hold(&mut self, more: usize) -> Result<(), Full> {
        let room = |held: usize| held.checked_add(more).filter(|sum| *sum <= self.most);
        let total = &self.budget.0;
        match total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room) {
            Ok(_) => {
                self.bytes = self.bytes.saturating_add(more);
                Ok(())
            }
            Err(_) => Err(Full),
        }
    }

    /// Gives some bytes back.
    pub fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.budget.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_answers_together_hold_no_more() {
        let budget = Arc::new(Budget::default());
        let (mut one, mut other) = (budget.begin(10), budget.begin(10));
        assert_eq!(one.hold(6), Ok(()));
        assert_eq!(other.hold(5), Err(Full));
        assert_eq!(other.hold(4), Ok(()));
        one.release(2);
        assert_eq!(other.hold(2), Ok(()));
        assert_eq!(other.hold(usize::MAX), Err(Full));
        assert_eq!(budget.held(), 10);
        drop(one);
        drop(other);
        assert_eq!(budget.held(), 0);
    }
}
