//! Functions that rewritten expressions call. CEL's grammar has no such names.

use std::collections::HashMap;

use cel::ExecutionError;
use cel::common::types::{
    CelBool, CelDouble, CelMap, CelString, DYN_TYPE, INT_TYPE, LIST_TYPE, OPTIONAL_TYPE,
};
use cel::common::value::CowVal;
use kubernetes_wire::api::go_float::Printed;

use super::libraries::{Called, Declarations, argument, hold, no_overload};
use super::literals::is_duration;
use super::meter;

pub(super) const SPEND: &str = "@spend";
pub(super) const ADD: &str = "@add";
pub(super) const OWNER: &str = "@owner";
pub(super) const DURATION_TEXT: &str = "@duration_text";
pub(super) const DOUBLE_TEXT: &str = "@double_text";
pub(super) const HELD: &str = "@held";

pub(super) fn declare(declarations: &mut Declarations) {
    declarations.function(SPEND, &[&INT_TYPE], spend);
    declarations.function(ADD, &[&DYN_TYPE, &DYN_TYPE], add);
    declarations.function(OWNER, &[&DYN_TYPE], owner);
    declarations.function(DURATION_TEXT, &[&DYN_TYPE], duration_text);
    declarations.function(DOUBLE_TEXT, &[&DYN_TYPE], double_text);
    declarations.function(HELD, &[&DYN_TYPE], held);
}

/// Takes a cost from the budget, and is true.
fn spend<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let cost = match args.first().map(|cost| cost.downcast_ref()) {
        Some(Some(cost)) => *cel::common::types::CelInt::inner(cost),
        _ => 1,
    };
    meter::spend(u64::try_from(cost).unwrap_or(1))?;
    Ok(CowVal::owned(CelBool::from(true)))
}

/// Returns a value of which `has` can ask for a member. As in cel-go, what is neither a
/// map nor a list has no members.
fn owner<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let value = argument(args)?;
    match value.as_iterable().is_some() || value.get_type() == &OPTIONAL_TYPE {
        true => Ok(value),
        false => Ok(CowVal::owned(CelMap::from(HashMap::new()))),
    }
}

/// Returns the argument of `string`: a double as the text that Go has for it.
fn double_text<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let value = argument(args)?;
    let double = value.downcast_ref::<CelDouble>().map(|d| *d.inner());
    Ok(match double {
        Some(double) => CowVal::owned(CelString::from(Printed(double).to_string())),
        None => value,
    })
}

/// Returns the argument of `duration`, if Go would read it.
fn duration_text<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let value = argument(args)?;
    match value.downcast_ref::<CelString<'_>>() {
        Some(text) if !is_duration(text.inner()) => Err(ExecutionError::function_error(
            "duration",
            format!("is no duration: {:?}", text.inner()),
        )),
        _ => Ok(value),
    }
}

/// Adds as `_+_` does, within the bounds of the meter.
fn add<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let [left, right] = args.as_slice() else {
        return Err(ExecutionError::invalid_argument_count(2, args.len()));
    };
    let size = |value: &CowVal<'_, '_>| {
        let size = value.as_sizer().map_or(0, |sizer| *sizer.size().inner());
        u64::try_from(size).unwrap_or_default()
    };
    meter::make(size(left).saturating_add(size(right)))?;
    if left.get_type() == &LIST_TYPE {
        hold(left.as_ref())?;
        hold(right.as_ref())?;
    }
    let adder = left.as_adder().ok_or_else(|| no_overload("_+_", &args))?;
    let sum = adder.add(right.as_ref()).map_err(|error| match error {
        ExecutionError::UnexpectedType { .. } | ExecutionError::UnsupportedBinaryOperator(..) => {
            no_overload("_+_", &args)
        }
        other => other,
    })?;
    Ok(CowVal::Owned(sum.into_owned()))
}

/// Returns a value that is going to be copied, or to which something of its size is made.
fn held<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let value = argument(args)?;
    hold(value.as_ref())?;
    Ok(value)
}
