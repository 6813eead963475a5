//! A page of an order that is followed: what changes in it.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use serde::Serialize;

use crate::answer::Failed;
use crate::candidate::Candidate;
use crate::kept_order::Page;
use crate::spec::{Count, Row, RowChange};

/// What a reader of a page has seen last.
pub struct Window<C> {
    total: u64,
    /// The hash of the counts. They may be many.
    counts: u64,
    shown: Vec<Shown<C>>,
    hashes: RandomState,
}

struct Shown<C> {
    object: C,
    /// The hash of the row. Rows may be large.
    row: u64,
}

/// What changed in a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub total: u64,
    /// `None` if they are as before.
    pub counts: Option<Vec<Count>>,
    /// One after the other.
    pub changes: Vec<RowChange>,
}

impl<C: Candidate + Clone> Window<C> {
    /// Begins with a page whose rows have been shown.
    pub fn new(page: Page<C>, rows: &[Row]) -> Self {
        let hashes = RandomState::new();
        let shown = page.objects.into_iter().zip(rows);
        let shown = shown.map(|(object, row)| Shown {
            object,
            row: hash(&hashes, &row.cells),
        });
        Self {
            total: page.total,
            counts: hash(&hashes, &page.counts),
            shown: shown.collect(),
            hashes,
        }
    }

    /// Takes the page as it is now. Returns `None` if it shows the same as before. `rows`
    /// makes the rows of objects.
    pub fn turn(
        &mut self,
        page: Page<C>,
        rows: impl FnOnce(&[&C]) -> Result<Vec<Row>, Failed>,
    ) -> Result<Option<Difference>, Failed> {
        let shown = self.shown.iter();
        let before: HashMap<Identity<'_>, usize> = (shown.enumerate())
            .map(|(at, shown)| (identity(&shown.object), at))
            .collect();
        // Only objects that are new or changed are evaluated.
        let is_unchanged = |object: &C| {
            let before = before.get(&identity(object));
            before
                .and_then(|at| self.shown.get(*at))
                .is_some_and(|shown| shown.object.is(object))
        };
        let changed: Vec<&C> = page.objects.iter().filter(|o| !is_unchanged(o)).collect();
        let mut new_rows = rows(&changed)?.into_iter();
        let mut shown = Vec::with_capacity(page.objects.len());
        // The rows that are new or changed, by their place in the page.
        let mut told = HashMap::new();
        for (at, object) in page.objects.iter().enumerate() {
            let known = before.get(&identity(object));
            let known = known.and_then(|at| self.shown.get(*at));
            let row = match known {
                Some(known) if known.object.is(object) => known.row,
                _ => {
                    let row = new_rows.next().unwrap_or_default();
                    let hashed = hash(&self.hashes, &row.cells);
                    if known.is_none_or(|known| known.row != hashed) {
                        told.insert(at, row);
                    }
                    hashed
                }
            };
            let object = object.clone();
            shown.push(Shown { object, row });
        }
        let changes = changes(&self.shown, &shown, told);
        let counted = hash(&self.hashes, &page.counts);
        let counts = (self.counts != counted).then_some(page.counts);
        let is_same = changes.is_empty() && counts.is_none() && self.total == page.total;
        self.shown = shown;
        self.counts = counted;
        self.total = page.total;
        Ok((!is_same).then_some(Difference {
            total: page.total,
            counts,
            changes,
        }))
    }
}

/// Tells objects apart. An object that was deleted and made again is another one.
type Identity<'c> = (&'c str, &'c str, &'c str);

fn identity<C: Candidate>(object: &C) -> Identity<'_> {
    (object.namespace(), object.name(), object.uid())
}

fn identities<C: Candidate>(shown: &[Shown<C>]) -> Vec<Identity<'_>> {
    let shown = shown.iter();
    shown.map(|shown| identity(&shown.object)).collect()
}

fn hash(hashes: &RandomState, shown: &impl Serialize) -> u64 {
    hashes.hash_one(serde_json::to_vec(shown).unwrap_or_default())
}

/// Returns the changes that lead from one page to another.
fn changes<C: Candidate>(
    before: &[Shown<C>],
    after: &[Shown<C>],
    mut told: HashMap<usize, Row>,
) -> Vec<RowChange> {
    let (before, after) = (identities(before), identities(after));
    let mut changes = Vec::new();
    let places: HashMap<Identity<'_>, usize> = (after.iter().enumerate())
        .map(|(at, row)| (*row, at))
        .collect();
    let mut rows = before;
    for at in (0..rows.len()).rev() {
        if rows.get(at).is_some_and(|row| !places.contains_key(row)) {
            rows.remove(at);
            changes.push(RowChange::Removed { index: at });
        }
    }
    let places = rows.iter().filter_map(|row| places.get(row).copied());
    let unmoved = longest_increasing(&places.collect::<Vec<_>>());
    let unmoved: HashSet<Identity<'_>> = unmoved
        .iter()
        .filter_map(|at| rows.get(*at).copied())
        .collect();
    // From the last to the first, each row is put before the one that follows it.
    let mut next = None;
    for (at, row) in after.iter().enumerate().rev() {
        let place = |rows: &[Identity<'_>], of: &Identity<'_>| rows.iter().position(|r| r == of);
        if !unmoved.contains(row) {
            let from = place(&rows, row);
            if let Some(from) = from {
                rows.remove(from);
            }
            let index = next
                .and_then(|next| place(&rows, next))
                .unwrap_or(rows.len());
            rows.insert(index, *row);
            changes.push(match from {
                Some(from) => RowChange::Moved { from, index },
                None => RowChange::Added {
                    index,
                    row: told.remove(&at).unwrap_or_default(),
                },
            });
        }
        next = Some(row);
    }
    let mut changed: Vec<(usize, Row)> = told.into_iter().collect();
    changed.sort_unstable_by_key(|(at, _)| *at);
    let changed = changed.into_iter();
    changes.extend(changed.map(|(index, row)| RowChange::Changed { index, row }));
    changes
}

/// Returns the places of a longest part of the numbers that increases.
fn longest_increasing(numbers: &[usize]) -> Vec<usize> {
    // For each length, the place of the least number that ends such a part.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(numbers.len());
    for (at, number) in numbers.iter().enumerate() {
        let length = ends.partition_point(|end| numbers.get(*end) < Some(number));
        let before = length.checked_sub(1);
        previous.push(before.and_then(|before| ends.get(before).copied()));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut longest = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(place) = at {
        longest.push(place);
        at = previous.get(place).copied().flatten();
    }
    longest.reverse();
    longest
}

#[cfg(test)]
mod tests;
