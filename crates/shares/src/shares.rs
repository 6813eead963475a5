//! What callers hold of something that they share.

use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

use super::ledger::Ledger;

/// The most that all callers hold together, and that one caller holds. 0 is no
/// limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub total: usize,
    pub of_one: usize,
}

/// Something that callers share.
#[derive(Debug)]
pub struct Shares<C> {
    limits: Limits,
    held: Arc<Mutex<Ledger<C>>>,
}

impl<C> Clone for Shares<C> {
    fn clone(&self) -> Self {
        Self {
            limits: self.limits,
            held: self.held.clone(),
        }
    }
}

/// What one caller holds. Dropping it gives it back.
#[derive(Debug)]
pub struct Share<C: Clone + Eq + Hash> {
    shares: Shares<C>,
    caller: C,
    amount: usize,
}

impl<C: Clone + Eq + Hash> Shares<C> {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            held: Arc::default(),
        }
    }

    /// Takes an amount for this caller. Returns `None` if a limit does not allow
    /// it.
    pub fn take(&self, caller: C, amount: usize) -> Option<Share<C>> {
        let mut share = Share {
            shares: self.clone(),
            caller,
            amount: 0,
        };
        share.grow(amount).then_some(share)
    }

    /// Returns the amount that all callers hold.
    pub fn held(&self) -> usize {
        self.held.lock().total()
    }
}

impl<C: Clone + Eq + Hash> Share<C> {
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Takes more. Returns false, and takes nothing, if a limit does not allow
    /// it.
    pub fn grow(&mut self, more: usize) -> bool {
        let within = |limit: usize, held: usize| limit == 0 || held.saturating_add(more) <= limit;
        let limits = self.shares.limits;
        let mut held = self.shares.held.lock();
        if !within(limits.of_one, held.of(&self.caller)) || !within(limits.total, held.total()) {
            return false;
        }
        held.take(&self.caller, more);
        self.amount = self.amount.saturating_add(more);
        true
    }
}

impl<C: Clone + Eq + Hash> Drop for Share<C> {
    fn drop(&mut self) {
        if self.amount > 0 {
            self.shares.held.lock().give_back(&self.caller, self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_leaves_a_part_for_others() {
        let shares = Shares::new(Limits {
            total: 5,
            of_one: 3,
        });
        let mut a = shares.take("a", 2).unwrap();
        assert!(a.grow(1) && !a.grow(1) && shares.take("a", 1).is_none());
        let b = shares.take("b", 2).unwrap();
        assert!(shares.take("c", 1).is_none(), "all is held");
        assert!(shares.take("c", usize::MAX).is_none());
        assert_eq!((a.amount(), b.amount(), shares.held()), (3, 2, 5));
        drop((a, b));
        assert_eq!(shares.held(), 0);
    }

    #[test]
    fn zero_is_no_limit() {
        let shares = Shares::new(Limits {
            total: 0,
            of_one: 0,
        });
        let mut held = shares.take("a", 1 << 40).unwrap();
        assert!(held.grow(1 << 40));
    }
}
