//! The value of an expression for one object.

use cel::Value;
use serde_json::Number;

/// A value. Values of any types have an order (`value_order.rs`).
#[derive(Clone, Debug)]
pub(crate) enum Cell {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(Box<str>),
    /// A list or a map, with the text that it has in JSON.
    Structured(Box<str>),
    /// A null, or the value of an expression that failed.
    Absent,
}

impl Cell {
    /// Reads the text of a JSON value.
    pub(crate) fn parse(json: &[u8]) -> serde_json::Result<Self> {
        // Most values are texts without escapes.
        if let [b'"', text @ .., b'"'] = json
            && !text.contains(&b'\\')
            && let Ok(text) = std::str::from_utf8(text)
        {
            return Ok(Self::Text(text.into()));
        }
        serde_json::from_slice(json).map(Self::from_json)
    }

    fn from_json(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Absent,
            serde_json::Value::Bool(value) => Self::Bool(value),
            serde_json::Value::Number(number) => Self::from_number(&number),
            serde_json::Value::String(text) => Self::Text(text.into()),
            mut structured => {
                round_large_numbers(&mut structured);
                Self::Structured(structured.to_string().into())
            }
        }
    }

    /// As Kubernetes reads JSON, whole numbers beyond 64 bits with a sign are doubles.
    fn from_number(number: &Number) -> Self {
        match number.as_i64() {
            Some(value) => Self::Int(value),
            None => number.as_f64().map_or(Self::Absent, Self::Double),
        }
    }

    pub(crate) fn into_json(self) -> serde_json::Value {
        match self {
            Self::Absent => serde_json::Value::Null,
            Self::Bool(value) => value.into(),
            Self::Int(value) => value.into(),
            Self::Uint(value) => value.into(),
            Self::Double(value) => match Number::from_f64(value) {
                Some(number) => number.into(),
                // As in protobuf's JSON.
                None if value.is_nan() => "NaN".into(),
                None if value > 0.0 => "Infinity".into(),
                None => "-Infinity".into(),
            },
            Self::Text(text) => serde_json::Value::String(text.into()),
            Self::Structured(text) => serde_json::from_str(&text).unwrap_or_default(),
        }
    }

    /// Returns the simplest of all equal cells: a whole number is an int, if it can be.
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn simplified(self) -> Self {
        let int = match self {
            Self::Uint(value) => i64::try_from(value).ok(),
            // The conversion is capped. Then both differ.
            Self::Double(value) => Some(value as i64),
            _ => None,
        };
        match int.map(Self::Int) {
            Some(int) if int == self => int,
            _ => self,
        }
    }

    /// Returns the memory behind the cell, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Structured(text) => text.len(),
            _ => 0,
        }
    }
}

/// Does to all numbers of a list or map what [`Cell::from_number`] does to one.
fn round_large_numbers(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Number(number) if !number.is_i64() => {
            let double = number.as_f64().and_then(Number::from_f64);
            *number = double.unwrap_or_else(|| number.clone());
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(round_large_numbers),
        serde_json::Value::Object(members) => {
            members.values_mut().for_each(round_large_numbers);
        }
        _ => {}
    }
}

impl TryFrom<Value> for Cell {
    type Error = Value;

    /// Fails for values that have no JSON, such as types.
    fn try_from(value: Value) -> Result<Self, Value> {
        Ok(match value {
            Value::Null => Self::Absent,
            Value::Bool(value) => Self::Bool(value),
            Value::Int(value) => Self::Int(value),
            Value::UInt(value) => Self::Uint(value),
            Value::Float(value) => Self::Double(value),
            Value::String(text) => Self::Text(text.as_str().into()),
            other => match json(&other) {
                Some(serde_json::Value::String(text)) => Self::Text(text.into()),
                Some(json) => Self::Structured(json.to_string().into()),
                None => return Err(other),
            },
        })
    }
}

/// Returns the JSON of a value as protobuf's `Value` has it (cel-go
/// `common/types`): timestamps in RFC 3339, durations in seconds.
fn json(value: &Value) -> Option<serde_json::Value> {
    Some(match value {
        Value::Null => serde_json::Value::Null,
        Value::Bool(value) => (*value).into(),
        Value::Int(value) => (*value).into(),
        Value::UInt(value) => (*value).into(),
        Value::Float(value) => Cell::Double(*value).into_json(),
        Value::String(text) => text.as_str().into(),
        Value::Timestamp(time) => {
            let utc = time.to_utc();
            utc.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
                .into()
        }
        Value::Duration(duration) => {
            let seconds = duration.num_seconds();
            let nanos = duration.subsec_nanos().unsigned_abs();
            let sign = if duration < &Default::default() {
                "-"
            } else {
                ""
            };
            let fraction = format!("{nanos:09}");
            let fraction = fraction.trim_end_matches('0');
            let point = if fraction.is_empty() { "" } else { "." };
            let seconds = seconds.unsigned_abs();
            format!("{sign}{seconds}{point}{fraction}s").into()
        }
        Value::List(list) => list.iter().map(json).collect::<Option<Vec<_>>>()?.into(),
        Value::Map(map) => {
            let members = map.map.iter();
            let members = members.map(|(key, value)| Some((key.to_string(), json(value)?)));
            serde_json::Value::Object(members.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_times_is_that_of_protobuf() {
        let env = std::sync::Arc::new(cel::Env::stdlib());
        for (expression, expected) in [
            (
                "timestamp('2026-01-02T03:04:05+01:00')",
                "2026-01-02T02:04:05Z",
            ),
            (
                "timestamp('2026-01-02T03:04:05.5Z')",
                "2026-01-02T03:04:05.500Z",
            ),
            ("duration('-1.5s')", "-1.5s"),
            ("duration('1h')", "3600s"),
            ("duration('-0.25s')", "-0.25s"),
        ] {
            let program = env.compile(expression).unwrap();
            let value = program
                .execute(&cel::Context::with_env(env.clone()))
                .unwrap();
            assert_eq!(Cell::try_from(value), Ok(Cell::Text(expected.into())));
        }
    }
}
