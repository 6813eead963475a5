//! Keeps the first rows of an order.

use std::cmp::Ordering;

use crate::cell::Cell;
use crate::plan::Key;

/// More than the wanted rows are kept, so that they are seldom cut.
const SLACK: usize = 4096;

/// The most memory for the values by which rows are ordered.
pub(crate) const MAX_BYTES: usize = 64 << 20;

/// An object, and the values by which it is ordered.
struct Placed<C> {
    values: Vec<Cell>,
    /// Its place in the order of names.
    number: u64,
    object: C,
}

/// The values by which the objects would be ordered take too much memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.orderBy: the values take more than {} MiB", MAX_BYTES >> 20)]
pub struct TooLarge;

/// The first rows of all that were added.
pub(crate) struct FirstRows<'p, C> {
    keys: &'p [Key],
    wanted: usize,
    rows: Vec<Placed<C>>,
    bytes: usize,
    added: u64,
}

impl<'p, C> FirstRows<'p, C> {
    pub(crate) fn new(keys: &'p [Key], wanted: usize) -> Self {
        Self {
            keys,
            wanted,
            rows: Vec::new(),
            bytes: 0,
            added: 0,
        }
    }

    /// Adds an object. Objects are added in the order of their names.
    pub(crate) fn add(&mut self, values: Vec<Cell>, object: C) -> Result<(), TooLarge> {
        let number = self.added;
        self.added = self.added.saturating_add(1);
        if self.keys.is_empty() && self.rows.len() >= self.wanted {
            return Ok(());
        }
        self.bytes = self.bytes.saturating_add(held(&values));
        self.rows.push(Placed {
            values,
            number,
            object,
        });
        if self.rows.len() >= self.wanted.saturating_mul(2).saturating_add(SLACK) {
            self.cut();
        }
        match self.bytes > MAX_BYTES {
            true => Err(TooLarge),
            false => Ok(()),
        }
    }

    fn cut(&mut self) {
        let keys = self.keys;
        if let Some(last) = self.wanted.checked_sub(1)
            && self.wanted < self.rows.len()
        {
            self.rows
                .select_nth_unstable_by(last, |a, b| compare(keys, a, b));
        }
        let gone = self.rows.drain(self.wanted.min(self.rows.len())..);
        let freed = gone.map(|row| held(&row.values)).sum();
        self.bytes = self.bytes.saturating_sub(freed);
    }

    /// Returns the objects after the first `offset`, in their order.
    pub(crate) fn after(mut self, offset: usize) -> Vec<C> {
        self.cut();
        let keys = self.keys;
        self.rows.sort_unstable_by(|a, b| compare(keys, a, b));
        let rows = self.rows.into_iter().skip(offset);
        rows.map(|row| row.object).collect()
    }
}

fn held(values: &[Cell]) -> usize {
    let cells = values
        .iter()
        .map(|cell| size_of::<Cell>().saturating_add(cell.held_bytes()));
    cells.fold(size_of::<Placed<usize>>(), usize::saturating_add)
}

/// Compares two rows. Rows with equal values are in the order of their names, also where
/// the order descends.
fn compare<C>(keys: &[Key], a: &Placed<C>, b: &Placed<C>) -> Ordering {
    let values = a.values.iter().zip(&b.values);
    for (key, (a, b)) in keys.iter().zip(values) {
        let order = a.compare(b, key.descending);
        if order.is_ne() {
            return order;
        }
    }
    a.number.cmp(&b.number)
}
