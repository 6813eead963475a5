//! The value of an expression for one object, and the order of such values.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use cel::Value;
use serde_json::Number;

/// A value. Values of any types have an order, so that objects can be sorted by an
/// expression whose type differs among them: absent values come last, and before them
/// lists and maps, texts, numbers, booleans.
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

    /// Compares two values of an order. What is absent comes last in both directions.
    pub(crate) fn compare(&self, other: &Self, descending: bool) -> Ordering {
        let is_absent = |cell: &Self| matches!(cell, Self::Absent);
        match is_absent(self).cmp(&is_absent(other)) {
            Ordering::Equal if descending => other.cmp(self),
            Ordering::Equal => self.cmp(other),
            order => order,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Int(_) | Self::Uint(_) | Self::Double(_) => 1,
            Self::Text(_) => 2,
            Self::Structured(_) => 3,
            Self::Absent => 4,
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

impl Ord for Cell {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) | (Self::Structured(a), Self::Structured(b)) => a.cmp(b),
            (Self::Int(a), Self::Int(b)) => a.cmp(b),
            (Self::Uint(a), Self::Uint(b)) => a.cmp(b),
            (Self::Double(a), Self::Double(b)) => compare_doubles(*a, *b),
            (Self::Int(a), Self::Uint(b)) => i128::from(*a).cmp(&i128::from(*b)),
            (Self::Uint(a), Self::Int(b)) => i128::from(*a).cmp(&i128::from(*b)),
            (Self::Int(a), Self::Double(b)) => compare_with_double(i128::from(*a), *b),
            (Self::Uint(a), Self::Double(b)) => compare_with_double(i128::from(*a), *b),
            (Self::Double(a), Self::Int(b)) => compare_with_double(i128::from(*b), *a).reverse(),
            (Self::Double(a), Self::Uint(b)) => compare_with_double(i128::from(*b), *a).reverse(),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

/// Compares two doubles. What is no number comes last; both zeros are equal.
fn compare_doubles(a: f64, b: f64) -> Ordering {
    match a.partial_cmp(&b) {
        Some(order) => order,
        None => a.is_nan().cmp(&b.is_nan()),
    }
}

/// Compares a whole number of at most 64 bits with a double, without rounding.
fn compare_with_double(whole: i128, double: f64) -> Ordering {
    if double.is_nan() {
        return Ordering::Less;
    }
    // The conversion is exact below 2^127, and is capped above.
    #[allow(clippy::cast_possible_truncation)]
    let floor = double.floor() as i128;
    match whole.cmp(&floor) {
        Ordering::Equal if double.fract() != 0.0 => Ordering::Less,
        order => order,
    }
}

impl PartialOrd for Cell {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Cell {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Cell {}

impl Hash for Cell {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Self::Bool(value) => value.hash(state),
            Self::Text(text) | Self::Structured(text) => text.hash(state),
            // Equal numbers have the same hash, whatever their types.
            #[allow(clippy::cast_precision_loss)]
            Self::Int(value) => hash_double(*value as f64, state),
            #[allow(clippy::cast_precision_loss)]
            Self::Uint(value) => hash_double(*value as f64, state),
            Self::Double(value) => hash_double(*value, state),
            Self::Absent => {}
        }
    }
}

fn hash_double<H: Hasher>(value: f64, state: &mut H) {
    let canonical = match value {
        0.0 => 0.0,
        value if value.is_nan() => f64::NAN,
        value => value,
    };
    canonical.to_bits().hash(state);
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use proptest::prelude::*;

    use super::*;

    fn cells() -> impl Strategy<Value = Cell> {
        let big = prop_oneof![
            Just(i64::MAX),
            Just(i64::MIN),
            Just((1 << 53) + 1),
            -3i64..3,
        ];
        let doubles = prop_oneof![
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(f64::NEG_INFINITY),
            Just(-0.0),
            Just(9_007_199_254_740_992.0),
            Just(9.3e18),
            -3.0f64..3.0,
        ];
        prop_oneof![
            any::<bool>().prop_map(Cell::Bool),
            big.clone().prop_map(Cell::Int),
            big.prop_map(|n| Cell::Uint(n.unsigned_abs())),
            doubles.prop_map(Cell::Double),
            "[ab]{0,2}".prop_map(|text| Cell::Text(text.into())),
            Just(Cell::Structured("[1]".into())),
            Just(Cell::Absent),
        ]
    }

    fn hash(cell: &Cell) -> u64 {
        let mut hasher = DefaultHasher::new();
        cell.hash(&mut hasher);
        hasher.finish()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn the_order_is_total(a in cells(), b in cells(), c in cells()) {
            prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
            if a <= b && b <= c {
                prop_assert!(a <= c, "{:?} {:?} {:?}", a, b, c);
            }
            if a == b {
                prop_assert_eq!(hash(&a), hash(&b));
            }
        }
    }

    #[test]
    fn numbers_are_compared_without_rounding() {
        let large = (1i64 << 53) + 1;
        assert!(Cell::Int(large) > Cell::Double(9_007_199_254_740_992.0));
        assert!(Cell::Int(i64::MAX) < Cell::Double(9_223_372_036_854_775_808.0));
        assert!(Cell::Int(-3) < Cell::Double(-2.5));
        assert!(Cell::Int(-2) > Cell::Double(-2.5));
        assert_eq!(Cell::Int(2), Cell::Double(2.0));
    }

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
