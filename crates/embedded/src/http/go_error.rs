//! Words JSON errors like Go's `encoding/json`.

use serde_json::Value;

/// Returns the text for a syntax error, as far as serde_json's error reveals it.
pub(super) fn syntax(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    let at = bytes
        .split(|&b| b == b'\n')
        .nth(error.line().saturating_sub(1))
        .and_then(|line| line.get(error.column().saturating_sub(1)))
        .map_or(' ', |&b| char::from(b));
    let context = if error.to_string().starts_with("trailing characters") {
        "after top-level value"
    } else {
        "looking for beginning of value"
    };
    format!("invalid character '{at}' {context}")
}

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
