//! An order of all selected objects that is kept, and changes with the objects.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::answer::{Answer, Failed, page, pause};
use crate::candidate::Candidate;
use crate::cell::Cell;
use crate::counts::Counts;
use crate::evaluation::{Evaluation, Values};
use crate::plan::Plan;
use crate::ranked::Ranked;
use crate::spec::{Count, Row};
use crate::warnings::{Note, Warnings};

/// The most different warnings. An order with more is not kept.
const MAX_NOTES: usize = 1_000;

/// About the memory of an object that has a warning.
const WARNED_BYTES: usize = 64;

/// The order of the objects that a query selects, and their counts. It gives the same
/// answers as [`answer`](crate::answer) gives for the same objects.
pub struct KeptOrder<C: Candidate> {
    plan: Arc<Plan>,
    order: Ranked<Placed<C>>,
    counts: Counts,
    /// The objects with each warning, and which of an object's warnings it is.
    warned: HashMap<Note, BTreeMap<InOrder<C>, usize>>,
    /// The memory of the values and of the warnings.
    bytes: usize,
}

/// The reason why an order is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    #[error(transparent)]
    Failed(#[from] Failed),
    #[error("the order takes too much memory")]
    TooLarge,
    /// Others would wait until it is of their state again.
    #[error("the order is of a much later state")]
    OfLater,
}

impl From<crate::expression::TooExpensive> for NotKept {
    fn from(error: crate::expression::TooExpensive) -> Self {
        Self::Failed(error.into())
    }
}

/// An object that changed: as it was, and as it is.
pub struct Changed<C> {
    pub before: Option<C>,
    pub after: Option<C>,
}

/// A page of an order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page<C> {
    pub total: u64,
    pub objects: Vec<C>,
    pub counts: Vec<Count>,
}

impl<C: Candidate + Clone> KeptOrder<C> {
    /// Orders candidates, which come in the order of lists. The order may take this
    /// number of bytes.
    pub fn new(
        plan: Arc<Plan>,
        candidates: impl IntoIterator<Item = C>,
        max_bytes: usize,
        goes_on: impl Fn() -> bool,
    ) -> Result<Self, NotKept> {
        let mut kept = Self {
            order: Ranked::from_sorted(Vec::new()),
            counts: Counts::default(),
            warned: HashMap::new(),
            bytes: 0,
            plan: plan.clone(),
        };
        let mut evaluation = Evaluation::new(&plan);
        let mut placed = Vec::new();
        for (number, object) in candidates.into_iter().enumerate() {
            pause(number, &goes_on)?;
            let values = evaluation.values(&object)?;
            kept.note(&object, evaluation.take_notes())?;
            if kept.held_bytes() > max_bytes {
                return Err(NotKept::TooLarge);
            }
            let Some(values) = values else {
                continue;
            };
            let Values { order, counted } = values;
            kept.count(counted)?;
            let place = Placed::new(&plan, order, object);
            kept.bytes = kept.bytes.saturating_add(place.held_bytes());
            placed.push(place);
        }
        // The objects come in the order of their names, which a stable sort keeps.
        placed.sort_by(|a, b| a.values.cmp(&b.values));
        kept.order = Ranked::from_sorted(placed);
        Ok(kept)
    }

    /// Takes objects as they changed. After an error, the order is not to be used.
    pub fn change(
        &mut self,
        changes: impl IntoIterator<Item = Changed<C>>,
        goes_on: impl Fn() -> bool,
    ) -> Result<(), NotKept> {
        let plan = self.plan.clone();
        let mut evaluation = Evaluation::new(&plan);
        for (number, Changed { before, after }) in changes.into_iter().enumerate() {
            pause(number, &goes_on)?;
            if let Some(object) = before {
                let values = evaluation.values(&object)?;
                self.forget(&object, &evaluation.take_notes());
                if let Some(Values { order, counted }) = values {
                    self.counts.remove(counted);
                    let place = Placed::new(&plan, order, object);
                    if self.order.remove(&place) {
                        self.bytes = self.bytes.saturating_sub(place.held_bytes());
                    }
                }
            }
            if let Some(object) = after {
                let values = evaluation.values(&object)?;
                self.note(&object, evaluation.take_notes())?;
                if let Some(Values { order, counted }) = values {
                    self.count(counted)?;
                    let place = Placed::new(&plan, order, object);
                    self.bytes = self.bytes.saturating_add(place.held_bytes());
                    self.order.insert(place);
                }
            }
        }
        Ok(())
    }

    /// Answers a query of the same [identity](Plan::identity).
    pub fn answer(&self, plan: &Plan) -> Result<Answer, Failed> {
        let mut warnings = self.warnings();
        let mut evaluation = Evaluation::new(plan);
        Ok(Answer {
            total: self.total(),
            rows: page(&mut evaluation, &mut warnings, self.objects(plan))?,
            counts: self.counts.sorted(),
            spent: evaluation.spent(),
            warnings: warnings.into_texts(),
        })
    }

    /// Returns the page of a query of the same [identity](Plan::identity).
    pub fn page(&self, plan: &Plan) -> Page<C> {
        Page {
            total: self.total(),
            objects: self.objects(plan).cloned().collect(),
            counts: self.counts.sorted(),
        }
    }

    fn objects(&self, plan: &Plan) -> impl Iterator<Item = &C> {
        self.order.range(plan.page()).map(|place| &place.object)
    }

    fn total(&self) -> u64 {
        u64::try_from(self.order.len()).unwrap_or(u64::MAX)
    }

    /// Returns the memory of the order, roughly.
    pub fn held_bytes(&self) -> usize {
        self.bytes.saturating_add(self.counts.held_bytes())
    }

    /// Returns the warnings in the order in which an evaluation finds them.
    fn warnings(&self) -> Warnings {
        let firsts = self.warned.iter().filter_map(|(note, objects)| {
            let (first, position) = objects.first_key_value()?;
            Some((first, position, note, objects.len()))
        });
        let mut firsts: Vec<_> = firsts.collect();
        firsts.sort_unstable_by_key(|(first, position, ..)| (*first, *position));
        let mut warnings = Warnings::default();
        for (first, _, note, objects) in firsts {
            warnings.add_many(
                note.clone(),
                &first.0,
                u64::try_from(objects).unwrap_or(u64::MAX),
            );
        }
        warnings
    }

    fn note(&mut self, object: &C, notes: Vec<Note>) -> Result<(), NotKept> {
        for (position, note) in notes.into_iter().enumerate() {
            let warned = self.warned.entry(note).or_default();
            warned.insert(InOrder(object.clone()), position);
            self.bytes = self.bytes.saturating_add(WARNED_BYTES);
        }
        match self.warned.len() > MAX_NOTES {
            true => Err(NotKept::TooLarge),
            false => Ok(()),
        }
    }

    fn forget(&mut self, object: &C, notes: &[Note]) {
        for note in notes {
            let Some(warned) = self.warned.get_mut(note) else {
                continue;
            };
            if warned.remove(&InOrder(object.clone())).is_some() {
                self.bytes = self.bytes.saturating_sub(WARNED_BYTES);
            }
            if warned.is_empty() {
                self.warned.remove(note);
            }
        }
    }

    fn count(&mut self, values: Vec<Cell>) -> Result<(), Failed> {
        if !values.is_empty() {
            self.counts.add(values)?;
        }
        Ok(())
    }
}

/// Returns the rows of some objects of a page.
pub fn rows<'c, C: Candidate + 'c>(
    plan: &Plan,
    objects: impl IntoIterator<Item = &'c C>,
) -> Result<Vec<Row>, Failed> {
    page(
        &mut Evaluation::new(plan),
        &mut Warnings::default(),
        objects,
    )
}

/// A value by which objects are ordered. All values of one key have the same direction.
#[derive(Clone, Debug)]
struct Directed {
    cell: Cell,
    descending: bool,
}

impl Ord for Directed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.cell.compare(&other.cell, self.descending)
    }
}

impl PartialOrd for Directed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Directed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Directed {}

/// An object at its place in an order. Objects with equal values are in the order of
/// lists.
struct Placed<C> {
    values: Box<[Directed]>,
    object: C,
}

impl<C: Candidate> Placed<C> {
    fn new(plan: &Plan, values: Vec<Cell>, object: C) -> Self {
        let values = values.into_iter().zip(&plan.order);
        let values = values.map(|(cell, key)| Directed {
            cell,
            descending: key.descending,
        });
        Self {
            values: values.collect(),
            object,
        }
    }

    /// Returns about the memory of the place: itself in a piece that is not full, and its
    /// values.
    fn held_bytes(&self) -> usize {
        let values = self.values.iter().map(|value| {
            let text = value.cell.held_bytes();
            size_of::<Directed>().saturating_add(text)
        });
        values.fold(size_of::<Self>().saturating_mul(2), usize::saturating_add)
    }
}

impl<C: Candidate> Ord for Placed<C> {
    fn cmp(&self, other: &Self) -> Ordering {
        let values = self.values.cmp(&other.values);
        values.then_with(|| self.object.compare(&other.object))
    }
}

impl<C: Candidate> PartialOrd for Placed<C> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<C: Candidate> PartialEq for Placed<C> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<C: Candidate> Eq for Placed<C> {}

/// An object, ordered as in lists.
struct InOrder<C>(C);

impl<C: Candidate> Ord for InOrder<C> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.compare(&other.0)
    }
}

impl<C: Candidate> PartialOrd for InOrder<C> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<C: Candidate> PartialEq for InOrder<C> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<C: Candidate> Eq for InOrder<C> {}

#[cfg(test)]
mod tests;
