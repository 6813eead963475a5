//! Amounts that callers hold of something that they share.

use std::fmt::{self, Debug, Formatter};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

use super::ledger::{Exceeded, Ledger, Limits};

/// Something that callers share. A caller who finds too little of it is refused at
/// once.
pub struct Shares<C: Eq + Hash>(Arc<Mutex<Ledger<C>>>);

/// The amount that one caller holds. Dropping it gives it back.
pub struct Share<C: Clone + Eq + Hash> {
    shares: Shares<C>,
    caller: Option<C>,
    amount: usize,
}

impl<C: Eq + Hash> Clone for Shares<C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: Eq + Hash> Debug for Shares<C> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares").finish_non_exhaustive()
    }
}

impl<C: Clone + Eq + Hash> Debug for Share<C> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let amount = &self.amount;
        f.debug_struct("Share")
            .field("amount", amount)
            .finish_non_exhaustive()
    }
}

impl<C: Clone + Eq + Hash> Shares<C> {
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Mutex::new(Ledger::new(limits))))
    }

    /// Sets other limits. Callers keep what they hold already.
    pub fn set_limits(&self, limits: Limits) {
        self.0.lock().set_limits(limits);
    }

    /// Takes an amount for this caller, if the limits allow it. `None` stands for a
    /// caller without a limit of its own.
    pub fn take(&self, caller: impl Into<Option<C>>, amount: usize) -> Result<Share<C>, Exceeded> {
        let mut share = self.nothing(caller);
        share.grow(amount)?;
        Ok(share)
    }

    /// Takes an amount even if it exceeds the limits. It counts all the same.
    pub fn take_anyway(&self, caller: impl Into<Option<C>>, amount: usize) -> Share<C> {
        let mut share = self.nothing(caller);
        share.set(amount);
        share
    }

    /// Returns a share of nothing, which may grow.
    pub fn nothing(&self, caller: impl Into<Option<C>>) -> Share<C> {
        Share {
            shares: self.clone(),
            caller: caller.into(),
            amount: 0,
        }
    }

    /// Returns the amount that all callers hold.
    pub fn held(&self) -> usize {
        self.0.lock().total()
    }

    /// Returns the number of callers who hold something.
    pub fn callers(&self) -> usize {
        self.0.lock().callers()
    }
}

impl<C: Clone + Eq + Hash> Share<C> {
    pub fn amount(&self) -> usize {
        self.amount
    }

    /// Takes more, if the limits allow it. Otherwise takes nothing.
    pub fn grow(&mut self, more: usize) -> Result<(), Exceeded> {
        let mut held = self.shares.0.lock();
        held.allows(self.caller.as_ref(), more)?;
        held.add(self.caller.as_ref(), more);
        self.amount = self.amount.saturating_add(more);
        Ok(())
    }

    /// Gives back a part.
    pub fn shrink(&mut self, less: usize) {
        let less = less.min(self.amount);
        self.shares.0.lock().take_off(self.caller.as_ref(), less);
        self.amount = self.amount.saturating_sub(less);
    }

    /// Sets the share's amount, even if it exceeds the limits.
    pub fn set(&mut self, amount: usize) {
        let mut held = self.shares.0.lock();
        held.take_off(self.caller.as_ref(), self.amount);
        held.add(self.caller.as_ref(), amount);
        self.amount = amount;
    }
}

impl<C: Clone + Eq + Hash> Drop for Share<C> {
    fn drop(&mut self) {
        if self.amount > 0 {
            let mut held = self.shares.0.lock();
            held.take_off(self.caller.as_ref(), self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_leaves_a_part_for_others() {
        let shares = Shares::new(Limits::fixed(5, 3));
        let mut a = shares.take("a", 2).unwrap();
        assert_eq!(a.grow(1), Ok(()));
        assert_eq!(a.grow(1), Err(Exceeded::OfOne));
        assert_eq!(shares.take("a", 1).unwrap_err(), Exceeded::OfOne);
        let b = shares.take("b", 2).unwrap();
        assert_eq!(shares.take("c", 1).unwrap_err(), Exceeded::Total);
        assert_eq!(shares.take(None, usize::MAX).unwrap_err(), Exceeded::Total);
        assert_eq!((a.amount(), b.amount(), shares.held()), (3, 2, 5));
        drop((a, b));
        assert_eq!((shares.held(), shares.callers()), (0, 0));
    }

    #[test]
    fn zero_is_no_limit() {
        let shares = Shares::new(Limits::fixed(0, 0));
        let mut held = shares.take("a", 1 << 40).unwrap();
        assert_eq!(held.grow(1 << 40), Ok(()));
    }

    #[test]
    fn what_is_taken_anyway_counts_for_others() {
        let shares = Shares::new(Limits::fixed(2, 1));
        let mut large = shares.take_anyway("a", 3);
        assert_eq!(shares.take("b", 1).unwrap_err(), Exceeded::Total);
        large.set(1);
        let one = shares.take("b", 1).unwrap();
        assert_eq!(shares.take(None, 1).unwrap_err(), Exceeded::Total);
        shares.set_limits(Limits::fixed(3, 1));
        let without_limit_of_its_own = shares.take(None, 1).unwrap();
        drop((large, one, without_limit_of_its_own));
        assert_eq!((shares.held(), shares.callers()), (0, 0));
    }
}
