//! The text of a `Quantity` (k8s.io/apimachinery/pkg/api/resource).

use InvalidQuantity::{ExponentTooLarge, Malformed};

/// The smallest exponent of ten. Go rounds up what comes after it.
pub const NANO: i32 = -9;

/// The most digits of a number that Go keeps in 64 bits.
const MAX_SHORT_DIGITS: usize = 18;

/// How a quantity is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityFormat {
    /// `1`, `1k`
    Decimal,
    /// `1e3`
    Exponent,
    /// `1Ki`
    Binary,
}

/// The parts of the text of a quantity.
#[derive(Clone, Copy, Debug)]
pub struct QuantityText<'a> {
    /// Whether it begins with a `-`.
    pub negative: bool,
    /// The digits before the point, without leading zeros, but never empty.
    pub whole: &'a [u8],
    /// The digits after the point.
    pub fraction: &'a [u8],
    /// Whether there is any digit. Go reads `m` as 0, and does not read `e-10`.
    pub has_digits: bool,
    /// How it is written.
    pub format: QuantityFormat,
    /// The exponent of ten, or of two in the binary format.
    pub exponent: i32,
}

/// The reason why a text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidQuantity {
    /// Go does not read it either.
    #[error("a quantity is a number with a suffix, such as 500m, 1.5Gi or 1e3")]
    Malformed,
    /// Go's integers wrap at much larger exponents.
    #[error("the exponent of a quantity must be between -{MAX_EXPONENT} and {MAX_EXPONENT}")]
    ExponentTooLarge,
}

impl<'a> QuantityText<'a> {
    /// Reads a text as Go does.
    pub fn split(text: &'a [u8]) -> Result<Self, InvalidQuantity> {
        let (negative, rest) = match text {
            [] => return Err(Malformed),
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let zeros = rest.iter().position(|b| *b != b'0').unwrap_or(rest.len());
        let rest = rest.get(zeros..).unwrap_or_default();
        let (whole, rest) = digits(rest);
        let has_digits = zeros > 0 || !whole.is_empty();
        let whole = if whole.is_empty() { b"0" } else { whole };
        let (fraction, suffix) = match rest {
            [b'.', after @ ..] => digits(after),
            rest => (&[][..], rest),
        };
        let (format, exponent) = interpret(suffix)?;
        Ok(Self {
            negative,
            whole,
            fraction,
            has_digits: has_digits || !fraction.is_empty(),
            format,
            exponent,
        })
    }

    /// Returns the number of digits before and after the point.
    pub fn digits(&self) -> usize {
        self.whole.len().saturating_add(self.fraction.len())
    }

    /// Returns the number as `value * 10^exponent`, if Go keeps it in 64 bits.
    pub fn short(&self) -> Option<(i64, i32)> {
        let fraction = i32::try_from(self.fraction.len()).ok()?;
        let (most, factor, exponent) = match self.format {
            QuantityFormat::Binary if fraction > 0 => return None,
            QuantityFormat::Binary => {
                // About the decimal digits of the suffix: in Go this is
                // float32(exponent)*3/10.
                let of_suffix = usize::try_from(self.exponent.checked_mul(3)? / 10).ok()?;
                let factor = 1i64.checked_shl(u32::try_from(self.exponent).ok()?)?;
                (14usize.checked_sub(of_suffix)?, factor, 0)
            }
            _ => (MAX_SHORT_DIGITS, 1, self.exponent.checked_sub(fraction)?),
        };
        if self.digits() > most || exponent < NANO {
            return None;
        }
        let mut all = self.whole.iter().chain(self.fraction);
        let value = all.try_fold(0i64, |value, digit| {
            let digit = char::from(*digit).to_digit(10)?;
            value.checked_mul(10)?.checked_add(digit.into())
        })?;
        let value = value.checked_mul(factor)?;
        let value = match self.negative {
            true => value.checked_neg()?,
            false => value,
        };
        Some((value, exponent))
    }
}

/// Suffixes, and their exponents of ten.
pub(crate) const DECIMAL_SUFFIXES: &[(&[u8], i32)] = &[
    (b"", 0),
    (b"n", -9),
    (b"u", -6),
    (b"m", -3),
    (b"k", 3),
    (b"M", 6),
    (b"G", 9),
    (b"T", 12),
    (b"P", 15),
    (b"E", 18),
];

/// Suffixes, and their exponents of two.
pub(crate) const BINARY_SUFFIXES: &[(&[u8], i32)] = &[
    (b"Ki", 10),
    (b"Mi", 20),
    (b"Gi", 30),
    (b"Ti", 40),
    (b"Pi", 50),
    (b"Ei", 60),
];

/// The largest exponent of ten that is accepted. Go's integers wrap at much larger
/// ones.
const MAX_EXPONENT: i32 = 1000;

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|b| !b.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

fn interpret(suffix: &[u8]) -> Result<(QuantityFormat, i32), InvalidQuantity> {
    let of = |table: &[(&[u8], i32)]| table.iter().find(|(s, _)| *s == suffix).map(|(_, e)| *e);
    if let Some(exponent) = of(DECIMAL_SUFFIXES) {
        return Ok((QuantityFormat::Decimal, exponent));
    }
    if let Some(exponent) = of(BINARY_SUFFIXES) {
        return Ok((QuantityFormat::Binary, exponent));
    }
    let [b'e' | b'E', exponent @ ..] = suffix else {
        return Err(Malformed);
    };
    let exponent = std::str::from_utf8(exponent).map_err(|_| Malformed)?;
    let exponent: i32 = exponent.parse().map_err(|_| Malformed)?;
    if exponent.abs() > MAX_EXPONENT {
        return Err(ExponentTooLarge);
    }
    Ok((QuantityFormat::Exponent, exponent))
}
