//! The text of a value on a terminal.

use std::borrow::Cow;

use serde_json::{Number, Value};

/// The numbers up to which each whole number is a double.
const WHOLE_DOUBLES: f64 = 9_007_199_254_740_992.0;

/// Returns a text without control characters, since whoever may write an object may not
/// command the terminal of whoever reads it.
pub(super) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Returns what a table shows of a value: texts without quotes, and JSON of lists and maps.
pub(super) fn of_value(value: &Value) -> String {
    match value {
        Value::Null => "<none>".to_owned(),
        Value::String(text) => printable(text).into_owned(),
        Value::Number(number) => of_number(number),
        value => printable(&value.to_string()).into_owned(),
    }
}

/// Whole numbers have no fraction, also if they are doubles.
fn of_number(number: &Number) -> String {
    match number.as_f64() {
        Some(double)
            if number.is_f64() && double.fract() == 0.0 && double.abs() < WHOLE_DOUBLES =>
        {
            format!("{double:.0}")
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_as_a_table_shows_them() {
        for (value, expected) in [
            (json!(null), "<none>"),
            (json!(true), "true"),
            (json!("text"), "text"),
            (json!(""), ""),
            (json!(1234567), "1234567"),
            (json!(u64::MAX), "18446744073709551615"),
            (json!(3.0), "3"),
            (json!(-0.5), "-0.5"),
            (json!(1e300), "1e+300"),
            (json!(["a", 1]), r#"["a",1]"#),
            (json!({ "a": null }), r#"{"a":null}"#),
            (json!("a\nb\u{1b}[2J\u{9b}"), "a\\nb\\u{1b}[2J\\u{9b}"),
        ] {
            assert_eq!(of_value(&value), expected, "{value}");
        }
    }
}
