//! `'%s has %d'.format([name, count])`, as Kubernetes' version of the text library does it.

use std::fmt::Write;
use std::sync::LazyLock;

use cel::Env;
use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelDuration, CelInt, CelList, CelMap, CelNull, CelString,
    CelTimestamp, CelType, CelUInt, LIST_TYPE, STRING_TYPE,
};
use cel::common::value::{CowVal, Val};
use kubernetes_wire::api::go_float::Printed;
use kubernetes_wire::api::query::go_quote;

use super::values::{self, Arguments};
use super::{Called, Declarations};

pub(in super::super) const FORMAT: &str = "@format";

/// The most digits after a point. Kubernetes has no limit.
const MAX_PRECISION: usize = 100;

pub(super) fn declare(declarations: &mut Declarations) {
    declarations.function(FORMAT, &[&STRING_TYPE, &LIST_TYPE], format);
}

fn format<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("format", &args);
    let (text, list) = (args.text(0)?, args.list(1)?);
    values::hold(args.value(1)?)?;
    let text = formatted(text, list).map_err(|error| args.failed(error))?;
    values::make(text.len())?;
    values::text(text)
}

/// Returns the text with the values in the place of the clauses.
fn formatted(mut rest: &str, values: &[Box<dyn Val + '_>]) -> Result<String, String> {
    let mut out = String::new();
    let mut values = values.iter().enumerate();
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let value = values.next();
        let (_, value) = value.ok_or("there are more clauses than values")?;
        let (precision, clause) = precision(after)?;
        let mut clause = clause.chars();
        let letter = clause.next().ok_or("unexpected end of string")?;
        append(letter, precision, value.as_ref(), &mut out)?;
        rest = clause.as_str();
    }
    out.push_str(rest);
    Ok(out)
}

/// Reads `.2` before the letter of a clause.
fn precision(text: &str) -> Result<(Option<usize>, &str), String> {
    let Some(digits) = text.strip_prefix('.') else {
        return Ok((None, text));
    };
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = digits.strip_suffix(rest).unwrap_or_default();
    match digits.parse() {
        Ok(precision) if precision <= MAX_PRECISION => Ok((Some(precision), rest)),
        _ => Err(format!("{digits:?} is no precision up to {MAX_PRECISION}")),
    }
}

/// Appends a value as a clause says.
fn append(
    letter: char,
    precision: Option<usize>,
    value: &dyn Val,
    out: &mut String,
) -> Result<(), String> {
    let int = value.downcast_ref::<CelInt>().map(|int| *int.inner());
    let uint = value.downcast_ref::<CelUInt>().map(|uint| *uint.inner());
    let sign = if int.is_some_and(i64::is_negative) {
        "-"
    } else {
        ""
    };
    let number = int.map(i64::unsigned_abs).or(uint);
    let bytes = match value.downcast_ref::<CelString<'_>>() {
        Some(text) => Some(text.inner().as_bytes()),
        None => value
            .downcast_ref::<CelBytes<'_>>()
            .map(|bytes| bytes.inner()),
    };
    let bool = value.downcast_ref::<CelBool>().map(|bool| *bool.inner());
    let wrote = match (letter, number) {
        ('s', _) => return append_text(value, out),
        ('d', Some(number)) => write!(out, "{sign}{number}"),
        ('b', Some(number)) => write!(out, "{sign}{number:b}"),
        ('o', Some(number)) => write!(out, "{sign}{number:o}"),
        ('x', Some(number)) => write!(out, "{sign}{number:x}"),
        ('X', Some(number)) => write!(out, "{sign}{number:X}"),
        ('b', None) if let Some(bool) = bool => write!(out, "{}", u8::from(bool)),
        ('x', None) if let Some(bytes) = bytes => {
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
        }
        ('X', None) if let Some(bytes) = bytes => {
            bytes.iter().try_for_each(|byte| write!(out, "{byte:02X}"))
        }
        ('f', None) if let Some(double) = double(value) => {
            out.push_str(&fixed(double, precision.unwrap_or(6)));
            Ok(())
        }
        ('e', None) if let Some(double) = double(value) => {
            // Go takes the precision as the width.
            write!(out, "{:>1$}", scientific(double), precision.unwrap_or(6))
        }
        ('d' | 'b' | 'o' | 'x' | 'X' | 'f' | 'e', _) => {
            let name = value.get_type().name();
            return Err(format!("%{letter} cannot format a value of type {name}"));
        }
        _ => return Err(format!("unrecognized formatting clause {letter:?}")),
    };
    wrote.map_err(|error| error.to_string())
}

fn double(value: &dyn Val) -> Option<f64> {
    let text = value.downcast_ref::<CelString<'_>>();
    match text.map(CelString::inner) {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => value
            .downcast_ref::<CelDouble>()
            .map(|double| *double.inner()),
    }
}

/// Returns the text of a number that is not finite.
fn unusual(double: f64) -> Option<&'static str> {
    match double {
        _ if double.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// Returns a number as English texts have it: `1,234.50`.
fn fixed(double: f64, precision: usize) -> String {
    if let Some(text) = unusual(double) {
        return text.to_owned();
    }
    let text = format!("{double:.precision$}");
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text.as_str(), None),
    };
    let mut out = String::new();
    let digits = whole.trim_start_matches('-').len();
    for (n, c) in whole.chars().enumerate() {
        let left = whole.len().saturating_sub(n);
        if c != '-' && left < digits && left.is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Returns a number in the form `1.500000×10⁰³`.
fn scientific(double: f64) -> String {
    if let Some(text) = unusual(double) {
        return text.to_owned();
    }
    let text = format!("{double:.6e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ("⁻", exponent),
        None => ("", exponent),
    };
    let raised = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let exponent = format!("{exponent:0>2}");
    let exponent: String = exponent
        .chars()
        .filter_map(|digit| raised.get(usize::try_from(digit.to_digit(10)?).ok()?))
        .collect();
    format!("{digits}×10{sign}{exponent}")
}

/// Appends a value as `%s` does.
fn append_text(value: &dyn Val, out: &mut String) -> Result<(), String> {
    if let Some(double) = value.downcast_ref::<CelDouble>() {
        out.push_str(&Printed(*double.inner()).to_string());
    } else if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        return append_list(list, out);
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        return append_map(map, out);
    } else if value.downcast_ref::<CelNull>().is_some() {
        out.push_str("null");
    } else if let Some(of) = value.downcast_ref::<CelType>() {
        out.push_str(of.name());
    } else {
        out.push_str(&string(value)?);
    }
    Ok(())
}

/// Returns the text that CEL's function `string` has for a value. Values of libraries
/// have none.
fn string(value: &dyn Val) -> Result<String, String> {
    static STANDARD: LazyLock<Env> = LazyLock::new(Env::stdlib);
    let args = vec![CowVal::Owned(value.clone_as_boxed())];
    let no_text = || {
        format!(
            "%s cannot format a value of type {}",
            value.get_type().name()
        )
    };
    let function = STANDARD.find_overload("string", &args);
    let text = function.ok_or_else(no_text)?(args).map_err(|error| error.to_string())?;
    let text = text.downcast_ref::<CelString<'_>>();
    Ok(text.ok_or_else(no_text)?.inner().to_owned())
}

/// Appends an element of a list or map, as CEL has it in an expression.
fn append_element(value: &dyn Val, out: &mut String) -> Result<(), String> {
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        out.push_str(&go_quote(text.inner()));
    } else if value.downcast_ref::<CelBytes<'_>>().is_some() {
        out.push('b');
        out.push_str(&go_quote(&string(value)?));
    } else if let Some(double) = value.downcast_ref::<CelDouble>() {
        let text = match *double.inner() {
            f64::INFINITY => "\"+Inf\"".to_owned(),
            f64::NEG_INFINITY => "\"-Inf\"".to_owned(),
            double if double.is_nan() => "\"NaN\"".to_owned(),
            double => format!("{double:.6}"),
        };
        out.push_str(&text);
    } else if value.downcast_ref::<CelTimestamp>().is_some() {
        out.push_str(&format!("timestamp({})", go_quote(&string(value)?)));
    } else if value.downcast_ref::<CelDuration>().is_some() {
        out.push_str(&format!("duration({})", go_quote(&string(value)?)));
    } else {
        return append_text(value, out);
    }
    Ok(())
}

fn append_list(list: &CelList<'_>, out: &mut String) -> Result<(), String> {
    out.push('[');
    for (n, element) in list.inner().iter().enumerate() {
        if n > 0 {
            out.push_str(", ");
        }
        append_element(element.as_ref(), out)?;
    }
    out.push(']');
    Ok(())
}

fn append_map(map: &CelMap<'_>, out: &mut String) -> Result<(), String> {
    let mut entries = Vec::new();
    for (key, value) in map.inner() {
        let (mut entry, mut text) = (String::new(), String::new());
        append_element(key.inner(), &mut entry)?;
        append_element(value.as_ref(), &mut text)?;
        entries.push((entry, text));
    }
    entries.sort();
    let entries: Vec<String> = entries
        .into_iter()
        .map(|(key, value)| format!("{key}:{value}"))
        .collect();
    out.push('{');
    out.push_str(&entries.join(", "));
    out.push('}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_english() {
        for (double, precision, expected) in [
            (0.0, 2, "0.00"),
            (1_234_567.5, 1, "1,234,567.5"),
            (-1234.0, 0, "-1,234"),
            (-123.0, 0, "-123"),
            (999.5, 2, "999.50"),
        ] {
            assert_eq!(fixed(double, precision), expected);
        }
        assert_eq!(scientific(-1500.0), "-1.500000×10⁰³");
        assert_eq!(scientific(1.5e-100), "1.500000×10⁻¹⁰⁰");
    }
}
