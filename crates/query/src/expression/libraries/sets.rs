//! The library of sets, which are lists.

use cel::ExecutionError;
use cel::common::types::LIST_TYPE;
use cel::common::value::{CowVal, Val};

use super::super::meter;
use super::values::{self, Arguments, held_bytes};
use super::{Called, Declarations};

pub(super) fn declare(declarations: &mut Declarations) {
    let args = [&LIST_TYPE, &LIST_TYPE];
    declarations.function("sets.contains", &args, contains);
    declarations.function("sets.equivalent", &args, equivalent);
    declarations.function("sets.intersects", &args, intersects);
}

type Elements<'a, 'v> = &'a [Box<dyn Val + 'v>];

/// Returns both lists, and spends the cost of comparing each element with each.
fn lists<'a, 'v>(
    args: &Arguments<'a, '_, 'v>,
) -> Result<(Elements<'a, 'v>, Elements<'a, 'v>), ExecutionError> {
    let (left, right) = (args.list(0)?, args.list(1)?);
    spend_pairs(args.value(0)?, right.len())?;
    spend_pairs(args.value(1)?, left.len())?;
    Ok((left, right))
}

/// Spends the cost of comparing each part of a value with this number of values.
pub(super) fn spend_pairs(value: &dyn Val, others: usize) -> Result<(), ExecutionError> {
    let bytes = held_bytes(value, meter::MAX_HELD);
    let others = u64::try_from(others).unwrap_or(u64::MAX);
    meter::spend_units(bytes.saturating_mul(others) / 64)
}

fn has(list: Elements<'_, '_>, value: &dyn Val) -> bool {
    list.iter().any(|element| element.equals(value))
}

fn has_all(list: Elements<'_, '_>, values: Elements<'_, '_>) -> bool {
    values.iter().all(|value| has(list, value.as_ref()))
}

fn contains<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let (list, values) = lists(&Arguments::of("sets.contains", &args))?;
    values::bool(has_all(list, values))
}

fn equivalent<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let (left, right) = lists(&Arguments::of("sets.equivalent", &args))?;
    values::bool(has_all(left, right) && has_all(right, left))
}

fn intersects<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let (left, right) = lists(&Arguments::of("sets.intersects", &args))?;
    values::bool(left.iter().any(|value| has(right, value.as_ref())))
}
