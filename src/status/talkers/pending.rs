//! Recent sums that are in no ranking yet. Each thread that serves requests has its
//! own, so that counting disturbs no other thread.

use super::Amounts;

/// The number of names that are counted at a time. A new name in a slot sends the
/// old name's sums to the rankings.
const MAX_NAMES: usize = 64;

pub(super) struct Pending(Box<[Slot]>);

/// The sums of one name since it took the slot.
#[derive(Clone, Default)]
pub(super) struct Slot {
    pub(super) hash: u64,
    pub(super) owner: u64,
    pub(super) name: String,
    pub(super) amounts: Amounts,
}

impl Default for Pending {
    fn default() -> Self {
        Self(vec![Slot::default(); MAX_NAMES].into())
    }
}

impl Pending {
    /// Adds to the sums of a name. `give_up` takes the sums of the name that had the
    /// slot.
    pub(super) fn add(
        &mut self,
        hash: u64,
        owner: u64,
        name: &str,
        amounts: &Amounts,
        give_up: impl FnOnce(&Slot),
    ) {
        let at = hash.checked_rem(MAX_NAMES as u64);
        let at = at.and_then(|at| usize::try_from(at).ok());
        let Some(slot) = at.and_then(|at| self.0.get_mut(at)) else {
            return;
        };
        if slot.hash != hash || slot.name != name {
            if !slot.amounts.is_none() {
                give_up(slot);
            }
            slot.hash = hash;
            slot.owner = owner;
            slot.name.clear();
            slot.name.push_str(name);
            slot.amounts = Amounts::default();
        }
        slot.amounts.add(amounts);
    }

    /// Gives all sums to `take` and begins anew.
    pub(super) fn drain(&mut self, mut take: impl FnMut(&Slot)) {
        for slot in self.0.iter_mut().filter(|slot| !slot.amounts.is_none()) {
            take(slot);
            slot.amounts = Amounts::default();
        }
    }
}
