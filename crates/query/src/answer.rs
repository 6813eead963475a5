//! Evaluates a plan on the objects of one state.

use std::thread;

use crate::candidate::Candidate;
use crate::cell::Cell;
use crate::counts::{Counts, TooMany};
use crate::expression::{Expression, Scope, TooExpensive, Valueless};
use crate::order::{FirstRows, TooLarge};
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

/// Evaluates a plan on candidates, which come in the order of their namespaces and
/// names. `goes_on` tells whether somebody still waits for the answer.
pub fn answer<C: Candidate>(
    plan: &Plan,
    candidates: impl IntoIterator<Item = C>,
    goes_on: impl Fn() -> bool,
) -> Result<Answer, Failed> {
    let mut evaluation = Evaluation {
        plan,
        scope: Scope::new(),
        warnings: Warnings::default(),
    };
    let mut rows = FirstRows::new(&plan.order, plan.offset.saturating_add(plan.limit));
    let mut counts = Counts::default();
    let mut total = 0u64;
    for (number, object) in candidates.into_iter().enumerate() {
        if number % BETWEEN_CHECKS == 0 {
            if !goes_on() {
                return Err(Failed::GivenUp);
            }
            thread::yield_now();
        }
        if !plan.selects_all() && !evaluation.selects(&object)? {
            continue;
        }
        total = total.saturating_add(1);
        if !plan.count_by.is_empty() {
            let values = evaluation.values(&plan.count_by, "spec.countBy", &object)?;
            counts.add(values)?;
        }
        let mut values = Vec::with_capacity(plan.order.len());
        for key in &plan.order {
            values.push(evaluation.value(&key.expression, "spec.orderBy", &object)?);
        }
        rows.add(values, object)?;
    }
    let mut shown = Vec::with_capacity(plan.limit);
    let mut left = MAX_ROW_BYTES;
    for object in rows.after(plan.offset) {
        let (row, bytes) = evaluation.row(&object)?;
        left = left.checked_sub(bytes).ok_or(Failed::TooLong)?;
        shown.push(row);
    }
    Ok(Answer {
        total,
        rows: shown,
        counts: counts.into_sorted(),
        spent: evaluation.scope.spent(),
        warnings: evaluation.warnings.into_texts(),
    })
}

struct Evaluation<'p> {
    plan: &'p Plan,
    scope: Scope<'p>,
    warnings: Warnings,
}

impl Evaluation<'_> {
    /// Tells whether the object is selected.
    fn selects(&mut self, object: &impl Candidate) -> Result<bool, TooExpensive> {
        if let Err(error) = self.scope.enter(object, &self.plan.selecting) {
            self.warnings
                .add("spec.resource", &error.to_string(), object);
            return Ok(false);
        }
        let Some(condition) = &self.plan.condition else {
            return Ok(true);
        };
        let error = match condition.evaluate(&mut self.scope) {
            Ok(Cell::Bool(selects)) => return Ok(selects),
            Ok(_) => "is no bool".to_owned(),
            Err(Valueless::TooExpensive(error)) => return Err(error),
            Err(error) => error.to_string(),
        };
        self.warnings.add("spec.where", &error, object);
        Ok(false)
    }

    fn values(
        &mut self,
        expressions: &[Expression],
        field: &str,
        object: &impl Candidate,
    ) -> Result<Vec<Cell>, TooExpensive> {
        let values = expressions.iter();
        values.map(|e| self.value(e, field, object)).collect()
    }

    /// Returns the value of an expression for the object of the scope. What an object
    /// lacks is absent, as in other tables.
    fn value(
        &mut self,
        expression: &Expression,
        field: &str,
        object: &impl Candidate,
    ) -> Result<Cell, TooExpensive> {
        match expression.evaluate(&mut self.scope) {
            Ok(value) => return Ok(value),
            Err(Valueless::TooExpensive(error)) => return Err(error),
            Err(Valueless::NoSuchKey(_)) => {}
            Err(Valueless::Failed(error)) => self.warnings.add(field, &error, object),
        }
        Ok(Cell::Absent)
    }

    /// Returns the row of an object, and the bytes of its cells.
    fn row(&mut self, object: &impl Candidate) -> Result<(Row, usize), TooExpensive> {
        let mut bytes = 0usize;
        let mut row = Row {
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            cells: Vec::with_capacity(self.plan.columns.len()),
        };
        if self.plan.columns.is_empty() {
            return Ok((row, bytes));
        }
        if let Err(error) = self.scope.enter(object, &self.plan.showing) {
            self.warnings
                .add("spec.resource", &error.to_string(), object);
            return Ok((row, bytes));
        }
        let plan = self.plan;
        for (column, expression) in &plan.columns {
            let field = format!("column {:?}", column.name);
            let value = self.value(expression, &field, object)?;
            bytes = bytes.saturating_add(value.held_bytes());
            row.cells.push(value.into_json());
        }
        Ok((row, bytes))
    }
}

#[cfg(test)]
mod tests;
