//! The amounts that callers hold.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

/// The amounts of all callers. Callers who hold nothing are left out.
#[derive(Debug)]
pub(super) struct Ledger<C> {
    total: usize,
    amounts: HashMap<C, usize>,
}

impl<C> Default for Ledger<C> {
    fn default() -> Self {
        Self {
            total: 0,
            amounts: HashMap::new(),
        }
    }
}

impl<C: Clone + Eq + Hash> Ledger<C> {
    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn of(&self, caller: &C) -> usize {
        self.amounts.get(caller).copied().unwrap_or_default()
    }

    pub(super) fn take(&mut self, caller: &C, amount: usize) {
        if amount == 0 {
            return;
        }
        self.total = self.total.saturating_add(amount);
        let own = self.amounts.entry(caller.clone()).or_default();
        *own = own.saturating_add(amount);
    }

    pub(super) fn give_back(&mut self, caller: &C, amount: usize) {
        self.total = self.total.saturating_sub(amount);
        if let Entry::Occupied(mut own) = self.amounts.entry(caller.clone()) {
            match own.get().saturating_sub(amount) {
                0 => drop(own.remove()),
                left => *own.get_mut() = left,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_nothing_is_not_remembered() {
        let mut ledger = Ledger::default();
        ledger.take(&"a", 3);
        ledger.take(&"b", 1);
        ledger.take(&"c", 0);
        ledger.give_back(&"a", 1);
        assert_eq!(
            (ledger.of(&"a"), ledger.of(&"b"), ledger.total()),
            (2, 1, 3)
        );
        ledger.give_back(&"a", 2);
        ledger.give_back(&"b", 1);
        assert_eq!((ledger.total(), ledger.amounts.len()), (0, 0));
    }
}
