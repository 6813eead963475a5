//! Numbers as Go's `encoding/json` writes them.

use std::io::Write;

use super::NotTranscodable::WrongType;
use super::Result;
use crate::api::go_float::Encoded;

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

#[inline]
pub(crate) fn digit(number: u8) -> u8 {
    b'0'.saturating_add(number)
}

pub(crate) fn write_double(value: f64, out: &mut Vec<u8>) -> Result {
    // Go's encoder fails, too.
    if !value.is_finite() {
        return Err(WrongType);
    }
    // Writing to a Vec does not fail.
    write!(out, "{}", Encoded(value)).map_err(|_| WrongType)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_refused() {
        assert!(write_double(f64::NAN, &mut Vec::new()).is_err());
        assert!(write_double(f64::INFINITY, &mut Vec::new()).is_err());
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
