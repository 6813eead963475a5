//! Kubernetes' library of lists, and the bounds of CEL's.

use std::cmp::Ordering;

use cel::ExecutionError;
use cel::common::types::{
    BOOL_TYPE, BYTES_TYPE, DOUBLE_TYPE, DURATION_TYPE, DYN_TYPE, INT_TYPE, LIST_TYPE, STRING_TYPE,
    TIMESTAMP_TYPE, Type, UINT_TYPE,
};
use cel::common::value::{CowVal, Val};

use super::super::meter;
use super::sets::spend_pairs;
use super::values::{self, Arguments, failed};
use super::{Called, Declarations, argument, no_overload};

/// The argument of `distinct`, which compares each element with each.
pub(in super::super) const DISTINCT_OF: &str = "@distinct_of";
/// The argument of `lists.range`.
pub(in super::super) const RANGE_OF: &str = "@range_of";

static SUMMABLE: [Type; 4] = [INT_TYPE, UINT_TYPE, DOUBLE_TYPE, DURATION_TYPE];
static COMPARABLE: [Type; 8] = [
    INT_TYPE,
    UINT_TYPE,
    DOUBLE_TYPE,
    BOOL_TYPE,
    DURATION_TYPE,
    TIMESTAMP_TYPE,
    STRING_TYPE,
    BYTES_TYPE,
];

pub(super) fn declare(declarations: &mut Declarations) {
    declarations.method(&LIST_TYPE, "isSorted", &[], is_sorted);
    declarations.method(&LIST_TYPE, "sum", &[], sum);
    declarations.method(&LIST_TYPE, "min", &[], min);
    declarations.method(&LIST_TYPE, "max", &[], max);
    declarations.method(&DYN_TYPE, "includes", &[&DYN_TYPE], includes);
    declarations.function(DISTINCT_OF, &[&DYN_TYPE], distinct_of);
    declarations.function(RANGE_OF, &[&DYN_TYPE], range_of);
}

/// Returns the elements of a list. Its first element tells which overload is called.
fn elements<'a, 'v>(
    function: &'static str,
    args: &'a [CowVal<'_, 'v>],
    types: &[Type],
) -> Result<&'a [Box<dyn Val + 'v>], ExecutionError> {
    let elements = Arguments::of(function, args).list(0)?;
    let first = elements.first().map(|element| element.get_type());
    match first.is_none_or(|first| types.contains(first)) {
        true => Ok(elements),
        false => Err(no_overload(function, args)),
    }
}

/// Compares two elements. What cannot be compared is not greater and not less.
fn compared(
    function: &'static str,
    left: &dyn Val,
    right: &dyn Val,
) -> Result<Option<Ordering>, ExecutionError> {
    let types = || vec![right.get_type().name().to_owned()];
    let unknown = || ExecutionError::no_such_overload(function, types());
    right.as_comparer().ok_or_else(unknown)?;
    let left = left.as_comparer().ok_or_else(unknown)?;
    Ok(left.compare(right).ok())
}

fn is_sorted<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let mut elements = elements("isSorted", &args, &COMPARABLE)?.iter();
    let mut before = elements.next();
    for element in elements {
        if let Some(before) = before
            && compared("isSorted", before.as_ref(), element.as_ref())? == Some(Ordering::Greater)
        {
            return values::bool(false);
        }
        before = Some(element);
    }
    values::bool(true)
}

fn sum<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let mut elements = elements("sum", &args, &SUMMABLE)?.iter();
    let Some(first) = elements.next() else {
        return values::int(0);
    };
    let mut sum = CowVal::Owned(first.clone_as_boxed());
    for element in elements {
        let unknown = || no_overload("sum", &args);
        let more = sum.as_adder().ok_or_else(unknown)?;
        sum = CowVal::Owned(more.add(element.as_ref())?.into_owned());
    }
    Ok(sum)
}

fn min<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    extreme("min", &args, Ordering::Greater)
}

fn max<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    extreme("max", &args, Ordering::Less)
}

/// Returns the element that compares so with no later one.
fn extreme<'b, 'v>(
    function: &'static str,
    args: &[CowVal<'b, 'v>],
    worse: Ordering,
) -> Called<'b, 'v> {
    let mut elements = elements(function, args, &COMPARABLE)?.iter();
    let first = elements.next();
    let mut best = first.ok_or_else(|| failed(function, "called on empty list"))?;
    for element in elements {
        if compared(function, best.as_ref(), element.as_ref())? == Some(worse) {
            best = element;
        }
    }
    Ok(CowVal::Owned(best.clone_as_boxed()))
}

/// Tells whether a list has an element, or whether a value that is no list equals it.
fn includes<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("includes", &args);
    let value = args.value(1)?;
    values::bool(match args.list(0) {
        Ok(list) => list.iter().any(|element| element.equals(value)),
        Err(_) => args.value(0)?.equals(value),
    })
}

fn distinct_of<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let list = argument(args)?;
    let elements = list.as_sizer().map_or(0, |sizer| *sizer.size().inner());
    spend_pairs(list.as_ref(), usize::try_from(elements).unwrap_or_default())?;
    values::hold(list.as_ref())?;
    Ok(list)
}

fn range_of<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let length = Arguments::of(RANGE_OF, &args).int(0);
    if let Ok(length) = length.map(u64::try_from)
        && let Ok(length) = length
    {
        meter::hold(length.saturating_mul(values::VALUE_BYTES))?;
    }
    argument(args)
}
