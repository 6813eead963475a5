//! `Quantity`, which is text in both encodings. Go does not always write the text
//! that it read: it writes `1000m` as `1`, `1.5Gi` as `1536Mi`, and `1.500`
//! unchanged. Source: k8s.io/apimachinery/pkg/api/resource. Its parser has a fast
//! path that keeps some texts, and a slow path with decimals of any length. Here
//! decimals have 38 digits, and a quantity that needs more is refused.

use super::NotTranscodable::{Unsupported, WrongType};
use super::Result;
use crate::api::quantity::{
    BINARY_SUFFIXES, DECIMAL_SUFFIXES, InvalidQuantity, NANO, QuantityFormat, QuantityText,
};

impl From<InvalidQuantity> for super::NotTranscodable {
    fn from(invalid: InvalidQuantity) -> Self {
        match invalid {
            InvalidQuantity::Malformed => WrongType,
            InvalidQuantity::ExponentTooLarge => Unsupported,
        }
    }
}

/// The most digits of a decimal. An i128 holds all such numbers.
const MAX_DIGITS: usize = 38;

/// Appends a quantity as Go writes it.
pub(crate) fn write(text: &[u8], out: &mut Vec<u8>) -> Result {
    if text == b"0" {
        out.push(b'0');
        return Ok(());
    }
    let parts = QuantityText::split(text)?;
    if parts.digits() > MAX_DIGITS {
        return Err(Unsupported);
    }
    let mut all = parts.whole.iter().chain(parts.fraction);
    let unsigned = all.try_fold(0i128, |value, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        value.checked_mul(10)?.checked_add(digit.into())
    });
    let unsigned = unsigned.ok_or(Unsupported)?;
    let binary = parts.format == QuantityFormat::Binary;
    let mut exponent = if binary { 0 } else { parts.exponent };
    exponent = exponent.saturating_sub(parts.fraction.len() as i32);

    // Go's fast path, which may keep the text.
    let shift = if binary { parts.exponent } else { 0 };
    let scaled = unsigned.checked_mul(1 << shift);
    let is_short = parts.short().is_some();
    if is_short {
        let first = parts.whole.first();
        let kept = if binary {
            unsigned & 7 != 0
        } else {
            let last = [parts.whole, parts.fraction].concat();
            exponent % 3 == 0 && !last.ends_with(b"000") && first != Some(&b'0')
        };
        if kept {
            out.extend_from_slice(text);
            return Ok(());
        }
    }
    if !parts.has_digits && !is_short {
        return Err(WrongType);
    }
    let mut value = match scaled {
        Some(scaled) => scaled,
        // The product is above 10^38. With fewer than 19 digits after the
        // point, the value is above Go's limit of 2^63.
        None if parts.fraction.len() < 19 => {
            exponent = 0;
            i128::MAX
        }
        None => return Err(Unsupported),
    };
    if exponent < NANO {
        let power = power_of_ten(NANO.saturating_sub(exponent))?;
        let (whole, rest) = divided(value, power)?;
        value = whole.saturating_add(i128::from(rest != 0));
        exponent = NANO;
    }
    if binary {
        let power = power_of_ten(exponent.saturating_neg())?;
        let most = i128::from(i64::MAX);
        if value > most.saturating_mul(power) {
            (value, exponent) = (most, 0);
        }
    }
    if parts.negative {
        value = value.saturating_neg();
    }
    canonical(value, exponent, parts.format, out)
}

fn power_of_ten(exponent: i32) -> Result<i128> {
    let exponent = u32::try_from(exponent).map_err(|_| Unsupported)?;
    10i128.checked_pow(exponent).ok_or(Unsupported)
}

fn divided(value: i128, power: i128) -> Result<(i128, i128)> {
    let parts = value.checked_div(power).zip(value.checked_rem(power));
    parts.ok_or(Unsupported)
}

/// Appends `value * 10^exponent`.
fn canonical(
    mut value: i128,
    mut exponent: i32,
    format: QuantityFormat,
    out: &mut Vec<u8>,
) -> Result {
    if value == 0 {
        out.push(b'0');
        return Ok(());
    }
    let mut format = format;
    if format == QuantityFormat::Binary {
        let power = power_of_ten(exponent.saturating_neg())?;
        let (whole, rest) = divided(value, power)?;
        if whole.abs() >= 1024 && rest == 0 {
            value = whole;
            let mut suffixes = BINARY_SUFFIXES.iter();
            let mut suffix: &[u8] = b"";
            while value % 1024 == 0 {
                value /= 1024;
                suffix = suffixes.next().ok_or(Unsupported)?.0;
            }
            out.extend_from_slice(value.to_string().as_bytes());
            out.extend_from_slice(suffix);
            return Ok(());
        }
        format = QuantityFormat::Decimal;
    }
    while value % 10 == 0 {
        value /= 10;
        exponent = exponent.saturating_add(1);
    }
    while exponent % 3 != 0 {
        value = value.checked_mul(10).ok_or(Unsupported)?;
        exponent = exponent.saturating_sub(1);
    }
    out.extend_from_slice(value.to_string().as_bytes());
    if format == QuantityFormat::Exponent {
        if exponent != 0 {
            out.extend_from_slice(format!("e{exponent}").as_bytes());
        }
        return Ok(());
    }
    // Go writes no suffix for an exponent that has none: it writes 1000E as 1.
    let suffix = DECIMAL_SUFFIXES.iter().find(|(_, of)| *of == exponent);
    out.extend_from_slice(suffix.map_or(b"", |(suffix, _)| suffix));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_as_go_writes_them() {
        // The expected results are those of k8s.io/apimachinery v0.36.3.
        for (text, expected) in [
            ("0", "0"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1.500", "1.500"),
            ("+5", "+5"),
            ("005", "005"),
            ("-", "0"),
            ("1.", "1."),
            (".5", "500m"),
            ("m", "0"),
            ("128Mi", "128Mi"),
            ("1024Mi", "1Gi"),
            ("8Gi", "8Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.0001Ki", "102400u"),
            ("512", "512"),
            ("1000", "1k"),
            ("1e3", "1e3"),
            ("1000e0", "1e3"),
            ("1E3", "1E3"),
            ("12e4", "120e3"),
            ("0Ki", "0"),
            ("0e5", "0"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("-1.5Gi", "-1536Mi"),
            ("65839956Ki", "65839956Ki"),
            ("1Ei", "1Ei"),
            ("100Ei", "9223372036854775807"),
            ("9223372036854775807", "9223372036854775807"),
            ("1234567890123456789012", "1234567890123456789012"),
            ("12345678901234567890.5", "12345678901234567890500m"),
            ("99999999999999999999Ei", "9223372036854775807"),
            ("1000E", "1"),
        ] {
            let mut out = Vec::new();
            write(text.as_bytes(), &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{text}");
        }
        for wrong in [
            "", "a", "1x", "1 ", "1Kii", "1e", "--1", "1.5.5", "1e5x", "\u{661}",
        ] {
            assert!(write(wrong.as_bytes(), &mut Vec::new()).is_err(), "{wrong}");
        }
    }
}
