//! Expressions: CEL about one object, which is the variable `object`.
//!
//! Kubernetes evaluates such expressions in ValidatingAdmissionPolicies. As there,
//! `object` has no static type: texts in the form of times stay texts, and whole numbers
//! are of type int.
//!
//! What an expression may cost is bounded before it runs (its length, its depth, the
//! functions that it may call: [`parse`]) and while it runs ([`meter`]).

mod functions;
mod internal;
mod libraries;
mod literals;
mod meter;
mod metered;
mod object;
mod parse;
mod paths;
mod scope;

use cel::{ExecutionError, IdedExpr};
use kubernetes_wire::representation::Projection;

use crate::candidate::Candidate;
use crate::cell::Cell;
use meter::Meter;

pub use parse::InvalidExpression;
pub(crate) use scope::Scope;

/// The longest expression, in bytes.
pub(crate) const MAX_BYTES: usize = 4096;

/// The longest text, or JSON of a list or map, that an expression may return.
const MAX_RESULT_BYTES: usize = 64 << 10;

/// An expression, ready to be evaluated.
pub struct Expression {
    expression: IdedExpr,
    /// The names of `object.a.b.c`, if the expression is no more than that.
    path: Option<Vec<String>>,
    projection: Projection,
    /// The cost of one evaluation without loops.
    cost: u64,
}

/// The reason why an expression has no value for an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Valueless {
    /// The object has no member of this name.
    #[error("no such key: {0}")]
    NoSuchKey(String),
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    TooExpensive(#[from] TooExpensive),
}

/// The evaluation was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooExpensive {
    #[error("the expression costs more than {} for one object", meter::MAX_OF_ONE)]
    ForOneObject,
    #[error("the query costs more than {} for all objects", meter::MAX_OF_ALL)]
    ForAll,
    #[error(
        "the expression makes values of more than {} bytes for one object",
        meter::MAX_HELD
    )]
    Memory,
}

impl Expression {
    /// Parses an expression. This needs much stack: see [`crate::Plan::new`].
    pub fn parse(source: &str) -> Result<Self, InvalidExpression> {
        let parsed = parse::parse(source)?;
        let projection = paths::read_by(&parsed);
        Ok(Self {
            path: paths::plain(&parsed),
            projection,
            cost: metered::cost(&parsed),
            expression: metered::metered(parsed),
        })
    }

    /// Evaluates the expression for one object.
    pub fn value_of(&self, object: &impl Candidate) -> Result<serde_json::Value, Valueless> {
        let mut scope = Scope::new();
        let entered = scope.enter(object, &self.projection);
        entered.map_err(|error| Valueless::Failed(error.to_string()))?;
        self.evaluate(&mut scope).map(Cell::into_json)
    }

    /// Returns the parts of the object that the expression reads.
    pub(crate) fn projection(&self) -> &Projection {
        &self.projection
    }

    /// Evaluates the expression for the object of the scope.
    pub(crate) fn evaluate(&self, scope: &mut Scope<'_>) -> Result<Cell, Valueless> {
        let cell = self.cell(scope)?;
        match cell.held_bytes() > MAX_RESULT_BYTES {
            true => Err(Valueless::Failed(format!(
                "the value has more than {MAX_RESULT_BYTES} bytes"
            ))),
            false => Ok(cell),
        }
    }

    fn cell(&self, scope: &mut Scope<'_>) -> Result<Cell, Valueless> {
        if let Some(path) = &self.path {
            scope.spend(self.cost)?;
            return scope.member(path);
        }
        let meter = Meter::start(scope.left(), scope.object_bytes(), self.cost);
        let (value, spent) = meter::while_metered(meter, || {
            let value = cel::Value::resolve_val(&self.expression, scope.context()?)?;
            libraries::result(value.as_ref())
        });
        scope.settle(spent)?;
        match value {
            Ok(value) => Cell::try_from(value)
                .map_err(|value| Valueless::Failed(format!("a {} is no result", value.type_of()))),
            Err(ExecutionError::NoSuchKey(key)) => Err(Valueless::NoSuchKey(key.to_string())),
            // As in cel-go, what is neither a map nor a list has no members.
            Err(ExecutionError::NoSuchOverload(error))
                if error.function() == "_._"
                    && error.argument_types().first().is_none_or(|of| of != "list") =>
            {
                let of = error.argument_types().first();
                let of = of.map_or("value", String::as_str);
                Err(Valueless::NoSuchKey(format!("a member of a {of}")))
            }
            Err(error) => Err(Valueless::Failed(error.to_string())),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
