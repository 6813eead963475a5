//! Floating-point numbers as Go writes them: with the fewest digits that identify
//! the number. If two such texts are equally near, Go takes the one whose last
//! digit is even. Rust's standard library takes the larger one.

use std::fmt::{self, Display, Formatter};

/// A number as `encoding/json` writes it. It has an exponent where ECMAScript
/// writes one.
pub(crate) struct Encoded(pub(crate) f64);

/// A number as `fmt` writes it for `%v`, and `strconv` for `g`. It has an exponent
/// below 1e-4 and from 1e6 on.
pub struct Printed(pub f64);

/// When and how an exponent is written: if it is less than `below`, or `from` or
/// more, and with at least `width` digits.
struct Style {
    below: i32,
    from: i32,
    width: usize,
}

const ENCODED: Style = Style {
    below: -6,
    from: 21,
    width: 1,
};

const PRINTED: Style = Style {
    below: -4,
    from: 6,
    width: 2,
};

impl Display for Encoded {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write(self.0, &ENCODED, f)
    }
}

impl Display for Printed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write(self.0, &PRINTED, f)
    }
}

/// Returns the digits without zeros at either end, and the first digit's exponent.
fn decimal(text: &str) -> (String, i32) {
    let (number, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    let point = i32::try_from(whole.len()).unwrap_or_default();
    let zeros = i32::try_from(all.len().saturating_sub(significant.len())).unwrap_or_default();
    let exponent: i32 = exponent.parse().unwrap_or_default();
    (
        significant.trim_end_matches('0').to_owned(),
        exponent
            .saturating_add(point)
            .saturating_sub(1)
            .saturating_sub(zeros),
    )
}

fn write(number: f64, style: &Style, f: &mut Formatter<'_>) -> fmt::Result {
    if !number.is_finite() {
        return f.write_str(match number {
            f64::INFINITY => "+Inf",
            f64::NEG_INFINITY => "-Inf",
            _ => "NaN",
        });
    }
    if number.is_sign_negative() {
        f.write_str("-")?;
    }
    if number == 0.0 {
        return f.write_str("0");
    }
    let mut shortest = zmij::Buffer::new();
    let (digits, exponent) = decimal(shortest.format_finite(number.abs()));
    if (style.below..style.from).contains(&exponent) {
        return plain(&digits, exponent, f);
    }
    let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
    f.write_str(first)?;
    if !rest.is_empty() {
        write!(f, ".{rest}")?;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    let (size, width) = (exponent.unsigned_abs(), style.width);
    write!(f, "e{sign}{size:0width$}")
}

/// Writes the digits without an exponent, with a point or with zeros where needed.
fn plain(digits: &str, exponent: i32, f: &mut Formatter<'_>) -> fmt::Result {
    let Ok(before_last) = usize::try_from(exponent) else {
        let zeros = exponent.unsigned_abs() as usize;
        return write!(
            f,
            "0.{:0>width$}",
            digits,
            width = zeros.saturating_sub(1).saturating_add(digits.len())
        );
    };
    let point = before_last.saturating_add(1);
    match digits.split_at_checked(point) {
        Some((whole, "")) => f.write_str(whole),
        Some((whole, fraction)) => write!(f, "{whole}.{fraction}"),
        None => write!(f, "{digits:0<point$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_are_as_go_writes_them() {
        for (number, encoded, printed) in [
            (0.0, "0", "0"),
            (-0.0, "-0", "-0"),
            (1.0, "1", "1"),
            (0.1, "0.1", "0.1"),
            (-2.25, "-2.25", "-2.25"),
            (65535.0, "65535", "65535"),
            (120_000.5, "120000.5", "120000.5"),
            (1e6, "1000000", "1e+06"),
            (1_234_567.0, "1234567", "1.234567e+06"),
            (0.0001, "0.0001", "0.0001"),
            (0.000_012, "0.000012", "1.2e-05"),
            (0.000_001, "0.000001", "1e-06"),
            (0.000_000_1, "1e-7", "1e-07"),
            (-1.25e-10, "-1.25e-10", "-1.25e-10"),
            (1e20, "100000000000000000000", "1e+20"),
            (1e21, "1e+21", "1e+21"),
            (1.5e300, "1.5e+300", "1.5e+300"),
            (5e-324, "5e-324", "5e-324"),
        ] {
            assert_eq!(Encoded(number).to_string(), encoded);
            assert_eq!(Printed(number).to_string(), printed);
        }
    }

    #[test]
    fn of_two_texts_that_are_equally_near_the_even_one_is_written() {
        for (number, encoded, printed) in [
            (
                -7_465_417_856_686_690.0 / 8.0,
                "-933177232085836.2",
                "-9.331772320858362e+14",
            ),
            (
                7_465_417_856_686_694.0 / 8.0,
                "933177232085836.8",
                "9.331772320858368e+14",
            ),
            (
                -1_535_221_376_519_317.0 / 8.0,
                "-191902672064914.62",
                "-1.9190267206491462e+14",
            ),
        ] {
            assert_eq!(Encoded(number).to_string(), encoded);
            assert_eq!(Printed(number).to_string(), printed);
        }
    }

    #[test]
    fn what_is_written_is_the_number() {
        proptest::proptest!(|(bits: u64)| {
            let number = f64::from_bits(bits);
            proptest::prop_assume!(number.is_finite());
            for text in [Encoded(number).to_string(), Printed(number).to_string()] {
                proptest::prop_assert_eq!(text.parse::<f64>().map(f64::to_bits), Ok(bits));
            }
        });
    }
}
