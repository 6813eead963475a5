//! Room of a bounded size that callers share.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The caller that is charged for waiting events: a digest of a caller's name or address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Owner(pub(super) u64);

/// Takes an [`Owner`] as its own hash, since it is a digest already.
#[derive(Debug, Default)]
struct Digest(u64);

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, digest: u64) {
        self.0 = digest;
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
}

/// The amount of the room that each caller has taken. No caller may have more
/// than is still free. One caller alone can take half of the room, two can take
/// a third each, and as much is always left for the next one. So the callers
/// with the most lose what does not fit (the dynamic threshold of switches that
/// share a buffer among their ports; Choudhury and Hahne, 1998).
#[derive(Debug)]
pub(super) struct Shares {
    room: usize,
    taken: usize,
    by_owner: HashMap<Owner, usize, BuildHasherDefault<Digest>>,
}

impl Shares {
    pub(super) fn new(room: usize) -> Self {
        Self {
            room,
            taken: 0,
            by_owner: HashMap::default(),
        }
    }

    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    fn of(&self, owner: Owner) -> usize {
        self.by_owner.get(&owner).copied().unwrap_or_default()
    }

    fn free(&self) -> usize {
        self.room.saturating_sub(self.taken)
    }

    /// Tells whether this owner may take this amount in addition.
    pub(super) fn fits(&self, owner: Owner, amount: usize) -> bool {
        self.of(owner).saturating_add(amount) <= self.free()
    }

    /// Tells whether this owner has half of what it may have.
    pub(super) fn is_crowded_by(&self, owner: Owner) -> bool {
        self.of(owner) >= self.free().div_ceil(2)
    }

    /// Takes an amount. The caller must check with [`Shares::fits`] first.
    pub(super) fn take(&mut self, owner: Owner, amount: usize) {
        if amount > 0 {
            self.taken = self.taken.saturating_add(amount);
            let own = self.by_owner.entry(owner).or_default();
            *own = own.saturating_add(amount);
        }
    }

    pub(super) fn give_back(&mut self, owner: Owner, amount: usize) {
        self.taken = self.taken.saturating_sub(amount);
        if let Some(own) = self.by_owner.get_mut(&owner) {
            *own = own.saturating_sub(amount);
            if *own == 0 {
                self.by_owner.remove(&owner);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.taken = 0;
        self.by_owner.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets the owners take one unit in turn, until none fits. Returns what
    /// each has.
    fn fill(shares: &mut Shares, owners: u64) -> Vec<usize> {
        loop {
            let before = shares.taken();
            for owner in (0..owners).map(Owner) {
                if shares.fits(owner, 1) {
                    shares.take(owner, 1);
                }
            }
            if shares.taken() == before {
                return (0..owners).map(|owner| shares.of(Owner(owner))).collect();
            }
        }
    }

    #[test]
    fn nobody_has_more_than_is_left_for_others() {
        for (owners, each) in [(1, 500), (2, 333), (9, 100)] {
            let mut shares = Shares::new(1000);
            let taken = fill(&mut shares, owners);
            assert!(taken.iter().all(|n| n.abs_diff(each) <= 1), "{taken:?}");
            assert!(shares.fits(Owner(99), 1));
            assert!(!shares.is_crowded_by(Owner(99)) && shares.is_crowded_by(Owner(0)));
        }
        let mut shares = Shares::new(1);
        assert!(shares.fits(Owner(0), 1));
        shares.take(Owner(0), 1);
        assert!(!shares.fits(Owner(1), 1));
        shares.give_back(Owner(0), 1);
        assert!(shares.fits(Owner(1), 1) && shares.by_owner.is_empty());
    }
}
