//! The functions that expressions may call: CEL's standard library, and those of
//! Kubernetes' text library whose result is no longer than their arguments.

use std::cell::RefCell;
use std::collections::HashMap;

use cel::common::types::{
    CelBool, CelDouble, CelMap, CelString, DYN_TYPE, INT_TYPE, OPTIONAL_TYPE, STRING_TYPE,
};
use cel::common::value::CowVal;
use cel::{Env, ExecutionError, extensions};
use chrono::DateTime;
use regex::{Regex, RegexBuilder};

use super::meter;

/// The internal functions. CEL's grammar has no such names.
pub(super) const SPEND: &str = "@spend";
pub(super) const ADD: &str = "@add";
pub(super) const OWNER: &str = "@owner";
pub(super) const DURATION_TEXT: &str = "@duration_text";
pub(super) const DOUBLE_TEXT: &str = "@double_text";

/// The functions that are written as calls. Macros (`has`, `all`, …) are no functions.
const FUNCTIONS: [&str; 40] = [
    "bool",
    "bytes",
    "charAt",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "hasValue",
    "indexOf",
    "int",
    "lastIndexOf",
    "lowerAscii",
    "matches",
    "optional.none",
    "optional.of",
    "optional.ofNonZeroValue",
    "or",
    "orValue",
    "size",
    "split",
    "startsWith",
    "string",
    "substring",
    "timestamp",
    "trim",
    "type",
    "uint",
    "upperAscii",
    "value",
];

/// The functions that are written as operators, or that macros call.
const OPERATORS: [&str; 21] = [
    "!_",
    "-_",
    "@in",
    "@not_strictly_false",
    "_!=_",
    "_%_",
    "_&&_",
    "_*_",
    "_+_",
    "_-_",
    "_/_",
    "_<=_",
    "_<_",
    "_==_",
    "_>=_",
    "_>_",
    "_?._",
    "_?_:_",
    "_[?_]",
    "_[_]",
    "_||_",
];

pub(super) fn is_known(name: &str) -> bool {
    FUNCTIONS.contains(&name) || OPERATORS.contains(&name)
}

pub(super) fn is_namespace(name: &str) -> bool {
    name == "optional"
}

/// Returns the names of the functions, for people.
pub(super) fn names() -> String {
    FUNCTIONS.join(", ")
}

pub(super) fn environment() -> Env {
    let mut env = Env::stdlib();
    // The names and signatures below are fixed, and none is declared twice.
    let declared = (env.add_extension(extensions::strings))
        .and_then(|_| env.add_overload(SPEND, "spend", vec![INT_TYPE], spend))
        .and_then(|()| env.add_overload(ADD, "add", vec![DYN_TYPE, DYN_TYPE], add))
        .and_then(|()| env.add_overload(OWNER, "owner", vec![DYN_TYPE], owner))
        .and_then(|()| {
            let args = vec![DYN_TYPE];
            env.add_overload(DURATION_TEXT, "duration_text", args, duration_text)
        })
        .and_then(|()| {
            let args = vec![DYN_TYPE];
            env.add_overload(DOUBLE_TEXT, "double_text", args, double_text)
        })
        .and_then(|()| {
            let args = vec![STRING_TYPE, STRING_TYPE];
            env.add_overload("matches", "matches", args, matches)
        })
        .and_then(|()| {
            let args = vec![STRING_TYPE];
            env.add_member_overload("matches", "matches_string", STRING_TYPE, args, matches)
        });
    debug_assert!(declared.is_ok(), "{declared:?}");
    env
}

/// Checks the text that a function is always called with. The error says what is wrong
/// with it.
pub(super) fn check_literal(function: &str, text: &str) -> Result<(), String> {
    match function {
        "matches" => pattern(text).map(drop),
        "duration" if !is_duration(text) => Err(format!("is no duration: {text:?}")),
        "timestamp" => DateTime::parse_from_rfc3339(text)
            .map(drop)
            .map_err(|error| format!("is no time: {text:?}: {error}")),
        _ => Ok(()),
    }
}

/// Tells whether Go reads a text as a duration (`time.ParseDuration`).
fn is_duration(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let mut rest = text;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let fraction = after.strip_prefix('.').unwrap_or(after);
        let unit = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        // The number has a digit.
        if !rest.starts_with(|c: char| c.is_ascii_digit()) && unit.len() == fraction.len() {
            return false;
        }
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let Some(after) = units.iter().find_map(|name| unit.strip_prefix(name)) else {
            return rest == text && rest == "0";
        };
        rest = after;
    }
    !text.is_empty()
}

type Called<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

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
fn owner<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let value = args.pop();
    let value = value.ok_or_else(|| ExecutionError::invalid_argument_count(1, 0))?;
    match value.as_iterable().is_some() || value.get_type() == &OPTIONAL_TYPE {
        true => Ok(value),
        false => Ok(CowVal::owned(CelMap::from(HashMap::new()))),
    }
}

/// Returns the argument of `string`: a double as the text that Go has for it.
fn double_text<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let value = args.pop();
    let value = value.ok_or_else(|| ExecutionError::invalid_argument_count(1, 0))?;
    let double = value.downcast_ref::<CelDouble>().map(|d| *d.inner());
    Ok(match double {
        Some(double) => CowVal::owned(CelString::from(go_text(double))),
        None => value,
    })
}

/// The exponent of 10 from which Go writes a double with its exponent.
const PLAIN_BELOW: i32 = 6;

/// Returns the text of a double as Go's `strconv.FormatFloat(double, 'g', -1, 64)`.
fn go_text(double: f64) -> String {
    if double.is_infinite() {
        return if double > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{double:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..PLAIN_BELOW).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => double.to_string(),
    }
}

/// Returns the argument of `duration`, if Go would read it.
fn duration_text<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let value = args.pop();
    let value = value.ok_or_else(|| ExecutionError::invalid_argument_count(1, 0))?;
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
    let adder = left.as_adder().ok_or_else(|| no_overload("_+_", &args))?;
    let sum = adder.add(right.as_ref()).map_err(|error| match error {
        ExecutionError::UnexpectedType { .. } | ExecutionError::UnsupportedBinaryOperator(..) => {
            no_overload("_+_", &args)
        }
        other => other,
    })?;
    Ok(CowVal::Owned(sum.into_owned()))
}

fn no_overload(function: &str, args: &[CowVal<'_, '_>]) -> ExecutionError {
    let types = args.iter().map(|arg| arg.get_type().name().to_owned());
    ExecutionError::no_such_overload(function, types.collect())
}

/// The most memory of a compiled pattern.
const MAX_PATTERN_BYTES: usize = 256 << 10;

/// The number of patterns that a thread remembers. Most patterns are literals, and are
/// the same for all objects.
const REMEMBERED_PATTERNS: usize = 8;

fn pattern(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| format!("is no pattern: {error}"))
}

/// Matches a text with a pattern (RE2), anywhere in the text.
fn matches<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    thread_local! {
        static PATTERNS: RefCell<Vec<Regex>> = const { RefCell::new(Vec::new()) };
    }
    let texts: Vec<&str> = args
        .iter()
        .filter_map(|arg| Some(arg.downcast_ref::<CelString<'_>>()?.inner()))
        .collect();
    let [text, pattern] = texts.as_slice() else {
        return Err(no_overload("matches", &args));
    };
    // A match takes up to the product of both.
    let cost = text.len().saturating_mul(pattern.len()) / 64;
    meter::spend(u64::try_from(cost).unwrap_or(u64::MAX))?;
    let is_match = PATTERNS.with_borrow_mut(|patterns| {
        let at = match patterns.iter().position(|known| known.as_str() == *pattern) {
            Some(at) => at,
            None => {
                meter::spend(
                    u64::try_from(pattern.len())
                        .unwrap_or(u64::MAX)
                        .saturating_mul(64),
                )?;
                let compiled = self::pattern(pattern)
                    .map_err(|error| ExecutionError::function_error("matches", error))?;
                if patterns.len() >= REMEMBERED_PATTERNS {
                    patterns.remove(0);
                }
                patterns.push(compiled);
                patterns.len().saturating_sub(1)
            }
        };
        Ok(patterns
            .get(at)
            .is_some_and(|pattern| pattern.is_match(text)))
    })?;
    Ok(CowVal::owned(CelBool::from(is_match)))
}
