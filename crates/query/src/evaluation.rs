//! Evaluates the expressions of a plan for one object after the other.

use std::mem;

use crate::candidate::Candidate;
use crate::cell::Cell;
use crate::expression::{Expression, Scope, TooExpensive, Valueless};
use crate::plan::Plan;
use crate::spec::Row;
use crate::warnings::{Note, Warnings};

pub(crate) struct Evaluation<'p> {
    plan: &'p Plan,
    scope: Scope<'p>,
    /// These went wrong for the last object.
    notes: Vec<Note>,
}

/// The values of a selected object.
pub(crate) struct Values {
    pub(crate) order: Vec<Cell>,
    pub(crate) counted: Vec<Cell>,
}

impl<'p> Evaluation<'p> {
    pub(crate) fn new(plan: &'p Plan) -> Self {
        Self {
            plan,
            scope: Scope::new(),
            notes: Vec::new(),
        }
    }

    /// Returns the cost of all evaluations.
    pub(crate) fn spent(&self) -> u64 {
        self.scope.spent()
    }

    /// Returns what went wrong for the last object.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        mem::take(&mut self.notes)
    }

    /// Adds what went wrong for this object to the warnings.
    pub(crate) fn warn(&mut self, warnings: &mut Warnings, object: &impl Candidate) {
        for note in self.notes.drain(..) {
            warnings.add(note, object);
        }
    }

    /// Returns the values of an object, if it is selected.
    pub(crate) fn values(
        &mut self,
        object: &impl Candidate,
    ) -> Result<Option<Values>, TooExpensive> {
        let plan = self.plan;
        if !plan.selects_all() && !self.selects(object)? {
            return Ok(None);
        }
        let counted = plan.count_by.iter();
        let counted = counted.map(|expression| self.value(expression, "spec.countBy"));
        let counted = counted.collect::<Result<_, _>>()?;
        let order = plan.order.iter();
        let order = order.map(|key| self.value(&key.expression, "spec.orderBy"));
        let order = order.collect::<Result<_, _>>()?;
        Ok(Some(Values { order, counted }))
    }

    /// Tells whether the object is selected.
    fn selects(&mut self, object: &impl Candidate) -> Result<bool, TooExpensive> {
        let plan = self.plan;
        if let Err(error) = self.scope.enter(object, &plan.selecting) {
            self.note("spec.resource", &error.to_string());
            return Ok(false);
        }
        let Some(condition) = &plan.condition else {
            return Ok(true);
        };
        let error = match condition.evaluate(&mut self.scope) {
            Ok(Cell::Bool(selects)) => return Ok(selects),
            Ok(_) => "is no bool".to_owned(),
            Err(Valueless::TooExpensive(error)) => return Err(error),
            Err(error) => error.to_string(),
        };
        self.note("spec.where", &error);
        Ok(false)
    }

    fn note(&mut self, field: &str, error: &str) {
        let note = Note::new(field, error);
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns the value of an expression for the object of the scope. What an object
    /// lacks is absent, as in other tables.
    fn value(&mut self, expression: &Expression, field: &str) -> Result<Cell, TooExpensive> {
        match expression.evaluate(&mut self.scope) {
            Ok(value) => return Ok(value),
            Err(Valueless::TooExpensive(error)) => return Err(error),
            Err(Valueless::NoSuchKey(_)) => {}
            Err(Valueless::Failed(error)) => self.note(field, &error),
        }
        Ok(Cell::Absent)
    }

    /// Returns the row of an object, and the bytes of its cells.
    pub(crate) fn row(&mut self, object: &impl Candidate) -> Result<(Row, usize), TooExpensive> {
        let mut bytes = 0usize;
        let plan = self.plan;
        let mut row = Row {
            namespace: object.namespace().to_owned(),
            name: object.name().to_owned(),
            uid: object.uid().to_owned(),
            cells: Vec::with_capacity(plan.columns.len()),
        };
        if plan.columns.is_empty() {
            return Ok((row, bytes));
        }
        if let Err(error) = self.scope.enter(object, &plan.showing) {
            self.note("spec.resource", &error.to_string());
            return Ok((row, bytes));
        }
        for (column, expression) in &plan.columns {
            let value = self.value(expression, &format!("column {:?}", column.name))?;
            bytes = bytes.saturating_add(value.held_bytes());
            row.cells.push(value.into_json());
        }
        Ok((row, bytes))
    }
}
