//! Counts objects by the values of expressions.

use std::collections::HashMap;
use std::mem;

use crate::cell::Cell;
use crate::spec::Count;

/// The most different values.
const MAX_COUNTS: usize = 10_000;

/// The most memory for the values.
const MAX_BYTES: usize = 16 << 20;

/// About the memory of a count besides its values.
const BYTES_OF_COUNT: usize = 64;

/// There are too many different values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.countBy: there are more than {MAX_COUNTS} different values, or {} MiB of them", MAX_BYTES >> 20)]
pub struct TooMany;

/// Equal numbers count together, and are shown in one form.
fn simplify(values: &mut [Cell]) {
    for value in values {
        *value = mem::replace(value, Cell::Absent).simplified();
    }
}

#[derive(Default)]
pub(crate) struct Counts {
    counts: HashMap<Vec<Cell>, u64>,
    bytes: usize,
}

impl Counts {
    pub(crate) fn add(&mut self, mut values: Vec<Cell>) -> Result<(), TooMany> {
        simplify(&mut values);
        if let Some(count) = self.counts.get_mut(&values) {
            *count = count.saturating_add(1);
            return Ok(());
        }
        let bytes = values.iter().map(Cell::held_bytes);
        self.bytes = bytes.fold(self.bytes, usize::saturating_add);
        if self.counts.len() >= MAX_COUNTS || self.bytes > MAX_BYTES {
            return Err(TooMany);
        }
        self.counts.insert(values, 1);
        Ok(())
    }

    /// Takes back what was added.
    pub(crate) fn remove(&mut self, mut values: Vec<Cell>) {
        simplify(&mut values);
        let Some(count) = self.counts.get_mut(&values) else {
            return;
        };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.counts.remove(&values);
            let bytes = values.iter().map(Cell::held_bytes).sum();
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// Returns the memory of the counts, roughly.
    pub(crate) fn held_bytes(&self) -> usize {
        let of_one = size_of::<Cell>().saturating_add(BYTES_OF_COUNT);
        let counts = self.counts.len().saturating_mul(of_one);
        self.bytes.saturating_add(counts)
    }

    /// Returns the counts, the greatest first.
    pub(crate) fn sorted(&self) -> Vec<Count> {
        let mut counts: Vec<(&Vec<Cell>, &u64)> = self.counts.iter().collect();
        counts.sort_unstable_by(|(a, m), (b, n)| n.cmp(m).then_with(|| a.cmp(b)));
        let count = |(values, count): (&Vec<Cell>, &u64)| Count {
            values: values.iter().cloned().map(Cell::into_json).collect(),
            count: *count,
        };
        counts.into_iter().map(count).collect()
    }
}
