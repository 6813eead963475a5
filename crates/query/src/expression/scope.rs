//! One object after the other, as expressions see it.

use std::sync::Arc;

use cel::{Context, ExecutionError};
use kubernetes_wire::representation::{Projection, scan};

use super::functions::DECLARED;
use super::meter::{MAX_OF_ALL, Spent};
use super::object::ObjectValue;
use super::parse::OBJECT;
use super::{TooExpensive, Valueless};
use crate::candidate::{Candidate, Unreadable};
use crate::cell::Cell;

/// The object for which expressions are evaluated, and what they may still cost.
pub(crate) struct Scope<'c> {
    /// The JSON of the parts that expressions read.
    json: Vec<u8>,
    context: Context<'c, 'static>,
    /// Whether the context has the object.
    is_read: bool,
    /// The cost that the query may still have.
    left: u64,
}

impl Scope<'_> {
    pub(crate) fn new() -> Self {
        Self {
            json: Vec::new(),
            context: Context::with_env(Arc::clone(DECLARED.env())),
            is_read: false,
            left: MAX_OF_ALL,
        }
    }

    /// Makes this object the one that expressions see.
    pub(crate) fn enter(
        &mut self,
        object: &impl Candidate,
        wanted: &Projection,
    ) -> Result<(), Unreadable> {
        self.is_read = false;
        self.json.clear();
        object.project(wanted, &mut self.json)
    }

    pub(super) fn object_bytes(&self) -> usize {
        self.json.len()
    }

    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Takes the cost of an evaluation from the budget.
    pub(super) fn spend(&mut self, units: u64) -> Result<(), TooExpensive> {
        let left = self.left.checked_sub(units);
        self.left = left.ok_or(TooExpensive::ForAll)?;
        Ok(())
    }

    pub(super) fn settle(&mut self, spent: Spent) -> Result<(), TooExpensive> {
        self.left = self.left.saturating_sub(spent.units);
        match (spent.is_exhausted, spent.is_of_one) {
            (false, _) => Ok(()),
            _ if spent.is_full => Err(TooExpensive::Memory),
            (true, true) => Err(TooExpensive::ForOneObject),
            (true, false) => Err(TooExpensive::ForAll),
        }
    }

    /// Returns the units that were spent.
    pub(crate) fn spent(&self) -> u64 {
        MAX_OF_ALL.saturating_sub(self.left)
    }

    /// Returns the context in which CEL evaluates expressions.
    pub(super) fn context(&mut self) -> Result<&Context<'_, 'static>, ExecutionError> {
        if !self.is_read {
            let ObjectValue(object) = serde_json::from_slice(&self.json)
                .map_err(|error| ExecutionError::InternalError(error.to_string()))?;
            self.context.add_variable_as_val(OBJECT, object);
            self.is_read = true;
        }
        Ok(&self.context)
    }

    /// Returns what CEL has for `object.a.b.c`.
    pub(super) fn member(&self, path: &[String]) -> Result<Cell, Valueless> {
        let mut json = self.json.as_slice();
        for name in path {
            let value = match json.first() {
                Some(b'{') => member(json, name),
                Some(b'[') => {
                    let error = "a list has no members, but elements";
                    return Err(Valueless::Failed(error.to_owned()));
                }
                // As in cel-go, no other value has members.
                _ => None,
            };
            json = value.ok_or_else(|| Valueless::NoSuchKey(name.clone()))?;
        }
        Cell::parse(json).map_err(|error| Valueless::Failed(error.to_string()))
    }
}

/// Returns the member of a JSON object, whose keys may have escapes.
fn member<'j>(json: &'j [u8], name: &str) -> Option<&'j [u8]> {
    let is_named = |key: &[u8]| match key.contains(&b'\\') {
        false => key == name.as_bytes(),
        true => {
            let quoted = [b"\"", key, b"\""].concat();
            serde_json::from_slice::<String>(&quoted).is_ok_and(|key| key == name)
        }
    };
    let mut members = scan::members(json).map_while(Result::ok);
    let member = members.find(|member| is_named(member.key))?;
    Some(member.value)
}
