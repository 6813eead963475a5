//! Numbers as Go's `encoding/json` writes them.

use std::io::Write;

use super::NotTranscodable::WrongType;
use super::Result;

/// Appends a decimal integer.
#[inline]
pub(crate) fn write_integer(value: i64, out: &mut Vec<u8>) {
    let mut text = [0u8; 20];
    let mut start = 0;
    let mut rest = value.unsigned_abs();
    for (at, character) in text.iter_mut().enumerate().rev() {
        *character = digit((rest % 10) as u8);
        rest /= 10;
        if rest == 0 {
            start = at;
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(text.get(start..).unwrap_or_default());
}

/// Returns the digit for a number from 0 to 9.
#[inline]
pub fn digit(number: u8) -> u8 {
    b'0'.saturating_add(number)
}

/// Appends a float with the fewest digits that identify it. It has an exponent
/// where ECMAScript writes one.
pub(crate) fn write_double(value: f64, out: &mut Vec<u8>) -> Result {
    // Go's encoder fails, too.
    if !value.is_finite() {
        return Err(WrongType);
    }
    let size = value.abs();
    // Writing to a Vec does not fail.
    let written = if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let text = format!("{value:e}");
        match text.split_once('e') {
            Some((digits, exponent)) if !exponent.starts_with('-') => {
                write!(out, "{digits}e+{exponent}")
            }
            _ => write!(out, "{text}"),
        }
    } else {
        write!(out, "{value}")
    };
    written.map_err(|_| WrongType)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_as_go_writes_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (0.000001, "0.000001"),
            (0.0000001, "1e-7"),
            (-1.25e-10, "-1.25e-10"),
        ] {
            let mut out = Vec::new();
            write_double(value, &mut out).unwrap();
            assert_eq!(out, expected.as_bytes());
        }
        assert!(write_double(f64::NAN, &mut Vec::new()).is_err());
    }

    #[test]
    fn integers() {
        for value in [0, 7, -7, 10, 1234567890, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            write_integer(value, &mut out);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }
}
