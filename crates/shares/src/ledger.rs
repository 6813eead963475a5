//! Counts the amounts that each caller has of something that callers share.

use std::borrow::Borrow;
use std::hash::Hash;

use priority_queue::PriorityQueue;

/// The most that callers may have. 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All callers together.
    pub total: usize,
    /// Each caller.
    pub of_one: OfOne,
}

/// The most that one caller may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfOne {
    /// A fixed amount; 0 means no limit.
    Most(usize),
    /// As much as is free at the moment. One caller who takes a little at a time
    /// can have half of the total, two can have a third each, and as much is left
    /// for the next one. So the callers with the most are refused first (the
    /// dynamic threshold of switches that share a buffer among their ports;
    /// Choudhury and Hahne, 1998).
    WhatIsFree,
}

/// The limit that a caller would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exceeded {
    OfOne,
    Total,
}

impl Limits {
    /// Makes a limit for all callers together, where each may have as much as is
    /// free. 0 means no limit.
    pub const fn shared(total: usize) -> Self {
        Self {
            total,
            of_one: OfOne::WhatIsFree,
        }
    }

    /// Makes fixed limits; 0 means no limit.
    pub const fn fixed(total: usize, of_one: usize) -> Self {
        Self {
            total,
            of_one: OfOne::Most(of_one),
        }
    }
}

/// The amounts of all callers. The owner keeps it under a lock. Callers who have
/// nothing are not remembered. The caller with the most is known without a search.
#[derive(Debug)]
pub struct Ledger<C: Eq + Hash> {
    limits: Limits,
    total: usize,
    amounts: PriorityQueue<C, usize>,
}

impl<C: Clone + Eq + Hash> Ledger<C> {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            total: 0,
            amounts: PriorityQueue::new(),
        }
    }

    /// Sets other limits. Callers keep what they have already.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns what all callers have.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns what this caller has.
    pub fn amount_of<Q>(&self, caller: &Q) -> usize
    where
        C: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.amounts.get_priority(caller).copied().unwrap_or(0)
    }

    /// Returns the number of callers who have something.
    pub fn callers(&self) -> usize {
        self.amounts.len()
    }

    /// Returns the callers who have something, in any order.
    pub fn all_callers(&self) -> impl Iterator<Item = &C> {
        self.amounts.iter().map(|(caller, _)| caller)
    }

    /// Returns the caller with the most, and how much that is.
    pub fn most(&self) -> Option<(&C, usize)> {
        let (caller, amount) = self.amounts.peek()?;
        Some((caller, *amount))
    }

    /// Checks whether the caller may have `more` in addition. `None` stands for a
    /// caller without a limit of its own.
    pub fn allows(&self, caller: Option<&C>, more: usize) -> Result<(), Exceeded> {
        if let Some(caller) = caller {
            self.allows_one(caller, more)?;
        }
        match self.limits.total {
            0 => Ok(()),
            total if self.total.saturating_add(more) <= total => Ok(()),
            _ => Err(Exceeded::Total),
        }
    }

    fn allows_one(&self, caller: &C, more: usize) -> Result<(), Exceeded> {
        let most = match self.limits.of_one {
            OfOne::Most(0) => return Ok(()),
            OfOne::WhatIsFree if self.limits.total == 0 => return Ok(()),
            OfOne::Most(most) => most,
            OfOne::WhatIsFree => self.free(),
        };
        match self.amount_of(caller).saturating_add(more) <= most {
            true => Ok(()),
            false => Err(Exceeded::OfOne),
        }
    }

    /// Tells whether this caller has at least half of the amount that is free.
    pub fn is_crowded_by(&self, caller: &C) -> bool {
        self.amount_of(caller) >= self.free().div_ceil(2)
    }

    fn free(&self) -> usize {
        self.limits.total.saturating_sub(self.total)
    }

    /// Adds to the caller's amount without a check. Use [`Ledger::allows`] before.
    pub fn add(&mut self, caller: Option<&C>, amount: usize) {
        if amount == 0 {
            return;
        }
        self.total = self.total.saturating_add(amount);
        let Some(caller) = caller else {
            return;
        };
        let add = |own: &mut usize| *own = own.saturating_add(amount);
        if !self.amounts.change_priority_by(caller, add) {
            self.amounts.push(caller.clone(), amount);
        }
    }

    pub fn take_off(&mut self, caller: Option<&C>, amount: usize) {
        if amount == 0 {
            return;
        }
        self.total = self.total.saturating_sub(amount);
        let Some(caller) = caller else {
            return;
        };
        match self.amount_of(caller).saturating_sub(amount) {
            0 => drop(self.amounts.remove(caller)),
            left => drop(self.amounts.change_priority(caller, left)),
        }
    }

    pub fn clear(&mut self) {
        self.total = 0;
        self.amounts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_nothing_is_not_remembered_and_who_has_the_most_is_known() {
        let mut ledger = Ledger::new(Limits::fixed(0, 0));
        ledger.add(Some(&"a"), 3);
        ledger.add(Some(&"b"), 1);
        ledger.add(Some(&"c"), 0);
        ledger.add(None, 5);
        assert_eq!((ledger.most(), ledger.callers()), (Some((&"a", 3)), 2));
        ledger.add(Some(&"b"), 3);
        assert_eq!(ledger.most(), Some((&"b", 4)));
        ledger.take_off(Some(&"b"), 2);
        assert_eq!(ledger.most(), Some((&"a", 3)));
        assert_eq!((ledger.amount_of(&"b"), ledger.total()), (2, 10));
        ledger.take_off(Some(&"a"), 3);
        ledger.take_off(Some(&"b"), 2);
        ledger.take_off(None, 5);
        assert_eq!((ledger.total(), ledger.callers()), (0, 0));
    }

    /// Lets callers take one unit each in turn until no one may. Returns the amount
    /// of each.
    fn fill(ledger: &mut Ledger<u64>, callers: u64) -> Vec<usize> {
        loop {
            let before = ledger.total();
            for caller in 0..callers {
                if ledger.allows(Some(&caller), 1).is_ok() {
                    ledger.add(Some(&caller), 1);
                }
            }
            if ledger.total() == before {
                return (0..callers)
                    .map(|caller| ledger.amount_of(&caller))
                    .collect();
            }
        }
    }

    #[test]
    fn nobody_has_more_than_is_left_for_others() {
        for (callers, each) in [(1, 500), (2, 333), (9, 100)] {
            let mut ledger = Ledger::new(Limits::shared(1000));
            let taken = fill(&mut ledger, callers);
            assert!(taken.iter().all(|n| n.abs_diff(each) <= 1), "{taken:?}");
            assert!(ledger.allows(Some(&99), 1).is_ok());
            assert!(!ledger.is_crowded_by(&99) && ledger.is_crowded_by(&0));
        }
        let mut ledger = Ledger::new(Limits::shared(1));
        assert!(ledger.allows(Some(&0), 1).is_ok());
        ledger.add(Some(&0), 1);
        assert!(ledger.allows(Some(&1), 1).is_err());
        ledger.take_off(Some(&0), 1);
        assert!(ledger.allows(Some(&1), 1).is_ok());
        assert!(
            Ledger::new(Limits::shared(0))
                .allows(Some(&1), usize::MAX)
                .is_ok()
        );
    }
}
