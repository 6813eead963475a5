//! The names with the largest sums of one measure, in bounded memory.
//!
//! This is Space-Saving with a filter (Homem, Carvalho: "Finding top-k elements in
//! data streams", 2010). A ranking lists [`MAX_ENTRIES`] names. All other names share
//! [`CELL_COUNT`] cells by their hash, and a cell is an upper bound for the sum of
//! each of its names. A name is listed once its bound reaches the least listed sum.
//! So a flood of names that occur once fills cells, but displaces no large name.
//!
//! Callers choose names, for example user agents, and one caller may invent many. So
//! each name has an owner: the user who brought it. If no owner has more entries, a
//! new entry replaces one of the owner's own. Otherwise it replaces an entry of an
//! owner with the most.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use apifront_shares::{Ledger, Limits};

/// The number of listed names. A page shows fewer, and a cluster has some dozens of
/// programs. A new name is compared with all of them.
pub const MAX_ENTRIES: usize = 64;

/// The cells of all names that are not listed, which take 4 KiB.
const CELL_COUNT: usize = 512;

/// The sums of one measure. Each part of the entries has its own list, indexed by
/// place, so that a scan of all sums is short.
pub(super) struct Ranking {
    places: HashMap<u64, usize, BuildHasherDefault<Hashed>>,
    counts: Vec<u64>,
    names: Vec<Name>,
    /// The number of entries of each user, by the hash of the user's name.
    owners: Ledger<u64>,
    cells: Box<[u64]>,
    total: u64,
}

struct Name {
    text: String,
    hash: u64,
    error: u64,
    /// The user who brought the name, by the hash of the user's name.
    owner: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Addition<'a> {
    pub(super) hash: u64,
    pub(super) owner: u64,
    pub(super) name: &'a str,
    pub(super) amount: u64,
}

/// A number that is a hash already.
#[derive(Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Keys are only numbers.
        debug_assert!(false, "{bytes:?}");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Default for Ranking {
    fn default() -> Self {
        Self {
            places: HashMap::default(),
            counts: Vec::new(),
            names: Vec::new(),
            owners: Ledger::new(Limits::fixed(0, 0)),
            cells: vec![0; CELL_COUNT].into(),
            total: 0,
        }
    }
}

impl Ranking {
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns an upper bound for the sums of all names that are not listed.
    pub(super) fn most_unlisted(&self) -> u64 {
        self.cells.iter().copied().max().unwrap_or_default()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (u64, &str)> {
        self.names.iter().map(|name| (name.hash, &*name.text))
    }

    pub(super) fn lists(&self, hash: u64) -> bool {
        self.places.contains_key(&hash)
    }

    pub(super) fn bounds(&self, hash: u64) -> (u64, u64) {
        let at = self.places.get(&hash);
        let listed = at.and_then(|at| self.names.get(*at).zip(self.counts.get(*at)));
        match listed {
            Some((name, count)) => (count.saturating_sub(name.error), *count),
            None => {
                let cell = cell_of(hash).and_then(|at| self.cells.get(at));
                (0, cell.copied().unwrap_or_default())
            }
        }
    }

    pub(super) fn add(&mut self, addition: Addition<'_>) {
        let Addition { hash, amount, .. } = addition;
        self.total = self.total.saturating_add(amount);
        let listed = self.places.get(&hash);
        if let Some(count) = listed.and_then(|at| self.counts.get_mut(*at)) {
            *count = count.saturating_add(amount);
            return;
        }
        let error = self.cell(hash).map_or(0, |cell| *cell);
        let count = error.saturating_add(amount);
        if self.names.len() < MAX_ENTRIES {
            self.list(addition, self.names.len(), error, count);
        } else if let Some(at) = self.displaced(addition.owner, count) {
            self.leave(at);
            self.list(addition, at, error, count);
        } else if let Some(cell) = self.cell(hash) {
            *cell = count;
        }
    }

    /// Returns the place of the entry that the owner's new name replaces. `None` if
    /// the name is not listed.
    fn displaced(&self, owner: u64, count: u64) -> Option<usize> {
        let all = self.counts.iter().enumerate();
        let most = self.owners.most().map_or(0, |(_, entries)| entries);
        let own = self.owners.amount_of(&owner);
        // The usual case for users: none has more than one entry.
        if most <= 1 {
            let (at, least) = all.clone().min_by_key(|(_, count)| **count)?;
            if *least > count {
                return None;
            }
            if own == 0 {
                return Some(at);
            }
        }
        let may_go = |at: usize| {
            let of_name = self.names.get(at).map(|name| name.owner);
            of_name.is_some_and(|of_name| match own == most {
                true => of_name == owner,
                false => self.owners.amount_of(&of_name) == most,
            })
        };
        let candidates = all.filter(|(at, _)| may_go(*at));
        let (at, least) = candidates.min_by_key(|(_, count)| **count)?;
        let is_fairer = own.saturating_add(1) < most;
        (is_fairer || *least <= count).then_some(at)
    }

    fn leave(&mut self, at: usize) {
        let Some((name, count)) = self.names.get(at).zip(self.counts.get(at)) else {
            return;
        };
        let (hash, owner, count) = (name.hash, name.owner, *count);
        self.places.remove(&hash);
        self.owners.take_off(Some(&owner), 1);
        if let Some(cell) = self.cell(hash) {
            *cell = count.max(*cell);
        }
    }

    /// Lists a name at an existing place, or at the next one.
    fn list(&mut self, addition: Addition<'_>, at: usize, error: u64, count: u64) {
        let Addition {
            hash, owner, name, ..
        } = addition;
        self.owners.add(Some(&owner), 1);
        self.places.insert(hash, at);
        match (self.names.get_mut(at), self.counts.get_mut(at)) {
            (Some(listed), Some(of_listed)) => {
                // Reuses the memory of the earlier text.
                listed.text.clear();
                listed.text.push_str(name);
                (listed.hash, listed.error, listed.owner) = (hash, error, owner);
                *of_listed = count;
            }
            _ => {
                self.counts.push(count);
                self.names.push(Name {
                    text: name.to_owned(),
                    hash,
                    error,
                    owner,
                });
            }
        }
    }

    fn cell(&mut self, hash: u64) -> Option<&mut u64> {
        self.cells.get_mut(cell_of(hash)?)
    }
}

/// Returns the place of a name's cell. Uses the high bits of the hash, because the
/// low bits choose the slot of `Pending`.
fn cell_of(hash: u64) -> Option<usize> {
    usize::try_from((hash >> 32).checked_rem(CELL_COUNT as u64)?).ok()
}
