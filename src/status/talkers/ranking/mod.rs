//! The names with the largest sums of one measure, in bounded memory.
//!
//! This is Space-Saving with a filter (Homem, Carvalho: "Finding top-k elements
//! in data streams", 2010). A ranking lists [`ENTRIES`] names. All other names
//! share [`CELLS`] cells by their hash, and a cell bounds the sum of each of its
//! names. A name is listed once its bound reaches the least listed sum. So a
//! flood of names that occur once fills cells, and displaces no large name.
//!
//! Callers choose names, such as user agents, and one caller may invent many.
//! Therefore each name has an owner, the user who brought it. An owner with as
//! many entries as any other gets a new entry only in place of one of its own,
//! and an owner with fewer gets it from an owner with the most.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The names that are listed. A page shows fewer, and a cluster has some dozens
/// of programs. A new name looks through all of them.
pub const ENTRIES: usize = 64;

/// The cells of all names that are not listed. They take 4 KiB.
const CELLS: usize = 512;

/// The sums of one measure. The parts of an entry are in lists of their own, by
/// the entry's place, so that a look through all sums is short.
pub struct Ranking {
    places: HashMap<u64, usize, BuildHasherDefault<Hashed>>,
    counts: Vec<u64>,
    names: Vec<Name>,
    owners: Vec<Owner>,
    /// The most entries that an owner has.
    largest_share: usize,
    cells: Box<[u64]>,
    total: u64,
}

struct Name {
    text: String,
    hash: u64,
    error: u64,
    /// The place of the owner in the list of owners.
    owner: usize,
}

/// A user, by the hash of the name, and the number of entries that the user
/// brought.
#[derive(Clone, Copy)]
struct Owner {
    hash: u64,
    entries: usize,
}

/// An amount for a name.
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
            owners: Vec::new(),
            largest_share: 0,
            cells: vec![0; CELLS].into(),
            total: 0,
        }
    }
}

impl Ranking {
    /// Returns the sum over all names.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the most that a name may have which is not listed.
    pub(super) fn most_unlisted(&self) -> u64 {
        self.cells.iter().copied().max().unwrap_or_default()
    }

    /// Returns the names that are listed, with their hashes.
    pub(super) fn names(&self) -> impl Iterator<Item = (u64, &str)> {
        self.names.iter().map(|name| (name.hash, &*name.text))
    }

    pub(super) fn lists(&self, hash: u64) -> bool {
        self.places.contains_key(&hash)
    }

    /// Returns the least and the most that a name may have.
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
        if self.names.len() < ENTRIES {
            self.list(addition, self.names.len(), error, count);
        } else if let Some(at) = self.displaced(addition.owner, count) {
            self.leave(at);
            self.list(addition, at, error, count);
        } else if let Some(cell) = self.cell(hash) {
            *cell = count;
        }
    }

    /// Returns the place of the entry in whose place the owner's new name is
    /// listed, if it is listed.
    fn displaced(&self, owner: u64, count: u64) -> Option<usize> {
        let all = self.counts.iter().enumerate();
        let most = self.largest_share;
        let own = self.owners.iter();
        let own = move || own.clone().position(|o| o.hash == owner && o.entries > 0);
        // The usual case of users: nobody has more than one entry.
        if most <= 1 {
            let (at, least) = all.clone().min_by_key(|(_, count)| **count)?;
            if *least > count {
                return None;
            }
            if own().is_none() {
                return Some(at);
            }
        }
        let own = own();
        let share = |at: usize| self.owners.get(at).map_or(0, |o| o.entries);
        let own_share = own.map_or(0, share);
        let may_go = |at: usize| {
            let Some(name) = self.names.get(at) else {
                return false;
            };
            match own_share == most {
                true => Some(name.owner) == own,
                false => share(name.owner) == most,
            }
        };
        let candidates = all.filter(|(at, _)| may_go(*at));
        let (at, least) = candidates.min_by_key(|(_, count)| **count)?;
        let is_fairer = own_share.saturating_add(1) < most;
        (is_fairer || *least <= count).then_some(at)
    }

    /// Moves an entry's sum into its cell.
    fn leave(&mut self, at: usize) {
        let Some((name, count)) = self.names.get(at).zip(self.counts.get(at)) else {
            return;
        };
        let (hash, owner, count) = (name.hash, name.owner, *count);
        self.places.remove(&hash);
        if let Some(owner) = self.owners.get_mut(owner) {
            let was_largest = owner.entries == self.largest_share;
            owner.entries = owner.entries.saturating_sub(1);
            if was_largest && self.largest_share > 1 {
                let shares = self.owners.iter().map(|o| o.entries);
                self.largest_share = shares.max().unwrap_or_default();
            }
        }
        if let Some(cell) = self.cell(hash) {
            *cell = count.max(*cell);
        }
    }

    /// Lists a name at a place that is free, or the next one.
    fn list(&mut self, addition: Addition<'_>, at: usize, error: u64, count: u64) {
        let Addition { hash, name, .. } = addition;
        let owner = self.enter(addition.owner);
        self.places.insert(hash, at);
        match (self.names.get_mut(at), self.counts.get_mut(at)) {
            (Some(listed), Some(of_listed)) => {
                // The text is written into the memory of the one before.
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

    /// Counts one more entry of an owner, and returns the owner's place. The
    /// place of an owner without entries is free.
    fn enter(&mut self, hash: u64) -> usize {
        let (mut known, mut free) = (None, None);
        for (at, owner) in self.owners.iter().enumerate() {
            if owner.entries == 0 {
                free = Some(at);
            } else if owner.hash == hash {
                known = Some(at);
            }
        }
        let at = known.or(free).unwrap_or(self.owners.len());
        if at == self.owners.len() {
            self.owners.push(Owner { hash, entries: 0 });
        }
        if let Some(owner) = self.owners.get_mut(at) {
            owner.hash = hash;
            owner.entries = owner.entries.saturating_add(1);
            self.largest_share = self.largest_share.max(owner.entries);
        }
        at
    }

    fn cell(&mut self, hash: u64) -> Option<&mut u64> {
        self.cells.get_mut(cell_of(hash)?)
    }
}

/// Returns the place of a name's cell. The low bits of the hash choose the slot
/// of `Pending`; these are others.
fn cell_of(hash: u64) -> Option<usize> {
    usize::try_from((hash >> 32).checked_rem(CELLS as u64)?).ok()
}
