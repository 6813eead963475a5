//! Quantities as numbers: how they are read, compared and added
//! (k8s.io/apimachinery/pkg/api/resource).
//!
//! Go has two forms of them, and some questions have other answers for the second:
//! `1.5Gi` is no integer there. Both forms are kept here.

use std::cmp::Ordering;

use cel::Value;
use kubernetes_wire::api::quantity::{InvalidQuantity, NANO, QuantityFormat, QuantityText};
use num_bigint::BigInt;

/// The most digits of a quantity. Go has no limit.
const MAX_DIGITS: usize = 1000;

#[derive(Clone, Debug)]
pub(crate) struct Quantity(Amount);

#[derive(Clone, Debug)]
enum Amount {
    /// `value * 10^exponent`
    Small {
        value: i64,
        exponent: i32,
    },
    Large {
        value: BigInt,
        exponent: i32,
    },
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAQuantity {
    #[error(transparent)]
    Invalid(#[from] InvalidQuantity),
    #[error("a quantity must have at most {MAX_DIGITS} digits")]
    TooLong,
}

impl Quantity {
    pub(crate) fn parse(text: &str) -> Result<Self, NotAQuantity> {
        let text = QuantityText::split(text.as_bytes())?;
        if text.digits() > MAX_DIGITS {
            return Err(NotAQuantity::TooLong);
        }
        match text.short() {
            Some((value, exponent)) => Ok(Self(Amount::Small { value, exponent })),
            None if text.has_digits => Ok(Self(large(&text))),
            None => Err(InvalidQuantity::Malformed.into()),
        }
    }

    /// Returns about the number of digits with which it is calculated, beyond 64 bits.
    pub(crate) fn digits(&self) -> u64 {
        match &self.0 {
            Amount::Small { exponent, .. } => exponent.unsigned_abs().into(),
            Amount::Large { value, exponent } => {
                let bits = value.bits() / 3;
                bits.saturating_add(exponent.unsigned_abs().into())
            }
        }
    }

    pub(crate) fn sign(&self) -> i8 {
        match &self.0 {
            Amount::Small { value, .. } => match value.cmp(&0) {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            },
            Amount::Large { value, .. } => match value.sign() {
                num_bigint::Sign::Minus => -1,
                num_bigint::Sign::NoSign => 0,
                num_bigint::Sign::Plus => 1,
            },
        }
    }

    /// Returns the number, unless it is too large, or in Go's second form.
    pub(crate) fn as_i64(&self) -> Option<i64> {
        match self.0 {
            Amount::Small { value, exponent } => scaled(value, exponent),
            Amount::Large { .. } => None,
        }
    }

    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn as_f64(&self) -> f64 {
        let (value, exponent) = match &self.0 {
            Amount::Small { value, exponent } => (*value as f64, *exponent),
            // Parsing rounds to the nearest number, as Go does.
            Amount::Large { value, exponent } => {
                (value.to_string().parse().unwrap_or(f64::NAN), *exponent)
            }
        };
        match exponent {
            0 => value,
            exponent => value * power_of_ten(exponent),
        }
    }

    /// Returns a whole number, if it is one, or else a double.
    pub(crate) fn to_number(&self) -> Value {
        let (value, exponent) = self.large();
        let power = times_power(BigInt::from(1), exponent.saturating_neg());
        let whole = times_power(value.clone(), exponent);
        let whole = whole.checked_div(&power).unwrap_or_default();
        let is_whole = exponent >= 0 || whole.checked_mul(&power).as_ref() == Some(&value);
        match i64::try_from(&whole) {
            Ok(whole) if is_whole => Value::Int(whole),
            _ => Value::Float(self.as_f64()),
        }
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        if let (
            &Amount::Small { value, exponent },
            &Amount::Small {
                value: more,
                exponent: other,
            },
        ) = (&self.0, &other.0)
            && let Some(sum) = small_sum((value, exponent), (more, other))
        {
            return Self(sum);
        }
        let ((left, exponent), (right, _)) = self.aligned(other);
        let value = left.checked_add(&right).unwrap_or(left);
        Self(Amount::Large { value, exponent })
    }

    pub(crate) fn minus(&self, other: &Self) -> Self {
        let negated = match &other.0 {
            Amount::Small { value, exponent } => match value.checked_neg() {
                Some(value) => Amount::Small {
                    value,
                    exponent: *exponent,
                },
                None => Amount::Large {
                    value: negated(BigInt::from(*value)),
                    exponent: *exponent,
                },
            },
            Amount::Large { value, exponent } => Amount::Large {
                value: negated(value.clone()),
                exponent: *exponent,
            },
        };
        self.plus(&Self(negated))
    }

    fn large(&self) -> (BigInt, i32) {
        match &self.0 {
            Amount::Small { value, exponent } => (BigInt::from(*value), *exponent),
            Amount::Large { value, exponent } => (value.clone(), *exponent),
        }
    }

    /// Returns both numbers with the smaller of the two exponents.
    fn aligned(&self, other: &Self) -> ((BigInt, i32), (BigInt, i32)) {
        let (left, of_left) = self.large();
        let (right, of_right) = other.large();
        let exponent = of_left.min(of_right);
        (
            (
                times_power(left, of_left.saturating_sub(exponent)),
                exponent,
            ),
            (
                times_power(right, of_right.saturating_sub(exponent)),
                exponent,
            ),
        )
    }
}

impl From<i64> for Quantity {
    fn from(value: i64) -> Self {
        Self(Amount::Small { value, exponent: 0 })
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (
                Amount::Small {
                    value: left,
                    exponent,
                },
                Amount::Small {
                    value: right,
                    exponent: other,
                },
            ) if exponent == other => left.cmp(right),
            _ => {
                let ((left, _), (right, _)) = self.aligned(other);
                left.cmp(&right)
            }
        }
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Quantity {}

fn large(text: &QuantityText<'_>) -> Amount {
    let digits = [text.whole, text.fraction].concat();
    let mut value = BigInt::parse_bytes(&digits, 10).unwrap_or_default();
    let fraction = i32::try_from(text.fraction.len()).unwrap_or(i32::MAX);
    let mut exponent = fraction.saturating_neg();
    match text.format {
        QuantityFormat::Binary => {
            let factor = BigInt::from(1u64.unbounded_shl(text.exponent.unsigned_abs()));
            value = value.checked_mul(&factor).unwrap_or(value);
        }
        _ => exponent = exponent.saturating_add(text.exponent),
    }
    if value != BigInt::ZERO {
        (value, exponent) = rounded(value, exponent);
    }
    let most = BigInt::from(i64::MAX);
    if text.format == QuantityFormat::Binary
        && value > times_power(most.clone(), exponent.saturating_neg())
    {
        (value, exponent) = (most, 0);
    }
    if text.negative {
        value = negated(value);
    }
    Amount::Large { value, exponent }
}

/// Returns a number with the exponent of a nano, rounded up.
fn rounded(value: BigInt, exponent: i32) -> (BigInt, i32) {
    if exponent >= NANO {
        return (times_power(value, exponent.saturating_sub(NANO)), NANO);
    }
    let power = times_power(BigInt::from(1), NANO.saturating_sub(exponent));
    let whole = value.checked_div(&power).unwrap_or_default();
    let is_exact = whole.checked_mul(&power).as_ref() == Some(&value);
    let more = BigInt::from(u8::from(!is_exact));
    (whole.checked_add(&more).unwrap_or(whole), NANO)
}

fn times_power(value: BigInt, exponent: i32) -> BigInt {
    let exponent = u32::try_from(exponent).unwrap_or(0);
    match exponent {
        0 => value,
        exponent => {
            let power = BigInt::from(10).pow(exponent);
            value.checked_mul(&power).unwrap_or(value)
        }
    }
}

/// Returns `value * 10^exponent`.
fn scaled(value: i64, exponent: i32) -> Option<i64> {
    match exponent {
        0 => Some(value),
        _ if value == 0 && exponent > 0 => Some(0),
        exponent => value.checked_mul(10i64.checked_pow(u32::try_from(exponent).ok()?)?),
    }
}

fn small_sum(left: (i64, i32), right: (i64, i32)) -> Option<Amount> {
    let exponent = match (left.0, right.0) {
        (_, 0) => left.1,
        (0, _) => right.1,
        _ => left.1.min(right.1),
    };
    let of = |(value, of): (i64, i32)| match value {
        0 => Some(0),
        value => scaled(value, of.checked_sub(exponent)?),
    };
    let value = of(left)?.checked_add(of(right)?)?;
    Some(Amount::Small { value, exponent })
}

/// Returns what Go's `math.Pow10` does.
fn power_of_ten(exponent: i32) -> f64 {
    let magnitude = exponent.unsigned_abs();
    let (low, high) = (magnitude % 32, magnitude.saturating_sub(magnitude % 32));
    let power = |text: String| text.parse::<f64>().unwrap_or(f64::INFINITY);
    match exponent {
        ..=-324 => 0.0,
        -323..0 => power(format!("1e-{high}")) / power(format!("1e{low}")),
        0..=308 => power(format!("1e{high}")) * power(format!("1e{low}")),
        _ => f64::INFINITY,
    }
}

// These numbers have no bounds.
#[allow(clippy::arithmetic_side_effects)]
fn negated(value: BigInt) -> BigInt {
    -value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn numbers_are_those_that_go_reads() {
        for (text, int, float) in [
            ("0", Some(0), 0.0),
            ("1.5Gi", None, 1_610_612_736.0),
            ("1Gi", Some(1 << 30), 1_073_741_824.0),
            ("500m", None, 0.5),
            ("1000m", None, 1.0),
            ("1e3", Some(1000), 1000.0),
            ("-2k", Some(-2000), -2000.0),
            ("0.0000000001", None, 1e-9),
            ("9223372036854775807", None, 9_223_372_036_854_775_807.0),
            ("100Ei", None, 9_223_372_036_854_775_807.0),
            ("1e300", None, 1e300),
            ("1e900", None, f64::INFINITY),
        ] {
            assert_eq!(of(text).as_i64(), int, "{text}");
            assert_eq!(of(text).as_f64(), float, "{text}");
        }
    }

    #[test]
    fn they_are_compared_and_added_exactly() {
        assert_eq!(of("1Gi"), of("1024Mi"));
        assert_eq!(of("1500m"), of("1.5"));
        assert!(of("50M") < of("50Mi"));
        assert!(of("1e1000") > of("1e999"));
        assert_eq!(of("1").plus(&of("500m")), of("1.5"));
        assert_eq!(of("1.5Gi").minus(&of("512Mi")), of("1Gi"));
        assert_eq!(of("1").minus(&of("3")).sign(), -1);
        assert_eq!(of("-9223372036854775808").minus(&of("1")).as_i64(), None);
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", "a", "1x", "1.2.3", "1e", "Gi1", "1 ", "1e2000", "e-10"] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
        let long = "9".repeat(MAX_DIGITS + 1);
        assert_eq!(Quantity::parse(&long), Err(NotAQuantity::TooLong));
    }
}
