//! Writes values as Go prints them in error texts.

use kubernetes_wire::api::go_float::Printed;
use kubernetes_wire::api::query::go_quote;
use serde_json::Value;

/// Writes a wrong value (apimachinery `field.Error`).
pub(super) fn bad(value: &Value) -> String {
    match value {
        Value::String(text) => go_quote(text),
        Value::Number(number) if number.is_f64() => {
            Printed(number.as_f64().unwrap_or_default()).to_string()
        }
        other => other.to_string(),
    }
}

/// Names the type of a value, as the validators call it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
