//! The order of values of any types, so that objects can be sorted by an expression
//! whose type differs among them: booleans, numbers, texts, lists and maps, and what is
//! absent.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::cell::Cell;

impl Cell {
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
}
