//! Evaluates a plan on the objects of one state.

use std::thread;

use crate::candidate::Candidate;
use crate::counts::{Counts, TooMany};
use crate::evaluation::Evaluation;
use crate::expression::TooExpensive;
use crate::first_rows::{FirstRows, TooLarge};
use crate::plan::Plan;
use crate::spec::{Count, Row};
use crate::warnings::Warnings;

/// The number of objects after which the time is checked, and others may run.
const BETWEEN_CHECKS: usize = 256;

/// The most bytes of the cells of all rows.
const MAX_ROW_BYTES: usize = 16 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The number of selected objects.
    pub total: u64,
    pub rows: Vec<Row>,
    pub counts: Vec<Count>,
    pub warnings: Vec<String>,
    /// The cost of all evaluations.
    pub spent: u64,
}

/// The reason why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    #[error("{0}")]
    TooExpensive(#[from] TooExpensive),
    #[error(transparent)]
    TooManyCounts(#[from] TooMany),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error("spec.columns: the rows have more than {} MiB; ask for fewer with `limit`", MAX_ROW_BYTES >> 20)]
    TooLong,
    /// Nobody waits for the answer any more.
    #[error("the query took too long")]
    GivenUp,
}

/// Evaluates a plan on candidates, which come in the order of lists. `goes_on` tells
/// whether somebody still waits for the answer.
pub fn answer<C: Candidate>(
    plan: &Plan,
    candidates: impl IntoIterator<Item = C>,
    goes_on: impl Fn() -> bool,
) -> Result<Answer, Failed> {
    let mut evaluation = Evaluation::new(plan);
    let mut warnings = Warnings::default();
    let mut rows = FirstRows::new(&plan.order, plan.page().end);
    let mut counts = Counts::default();
    let mut total = 0u64;
    for (number, object) in candidates.into_iter().enumerate() {
        pause(number, &goes_on)?;
        let values = evaluation.values(&object)?;
        evaluation.warn(&mut warnings, &object);
        let Some(values) = values else {
            continue;
        };
        total = total.saturating_add(1);
        if !plan.count_by.is_empty() {
            counts.add(values.counted)?;
        }
        rows.add(values.order, object)?;
    }
    let objects = rows.after(plan.offset);
    Ok(Answer {
        total,
        rows: page(&mut evaluation, &mut warnings, &objects)?,
        counts: counts.sorted(),
        spent: evaluation.spent(),
        warnings: warnings.into_texts(),
    })
}

/// Lets others run from time to time, and checks whether somebody still waits.
pub(crate) fn pause(number: usize, goes_on: &impl Fn() -> bool) -> Result<(), Failed> {
    if number.is_multiple_of(BETWEEN_CHECKS) {
        if !goes_on() {
            return Err(Failed::GivenUp);
        }
        thread::yield_now();
    }
    Ok(())
}

/// Returns the rows of these objects.
pub(crate) fn page<'c, C: Candidate + 'c>(
    evaluation: &mut Evaluation<'_>,
    warnings: &mut Warnings,
    objects: impl IntoIterator<Item = &'c C>,
) -> Result<Vec<Row>, Failed> {
    let mut rows = Vec::new();
    let mut left = MAX_ROW_BYTES;
    for object in objects {
        let (row, bytes) = evaluation.row(object)?;
        evaluation.warn(warnings, object);
        left = left.checked_sub(bytes).ok_or(Failed::TooLong)?;
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
pub(crate) mod tests;
