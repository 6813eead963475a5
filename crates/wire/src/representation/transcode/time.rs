//! `Time` and `MicroTime`: seconds (and nanoseconds) since 1970 in protobuf,
//! RFC 3339 in JSON.

use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, Timelike, Utc};

use super::NotTranscodable::{Unsupported, WrongType};
use super::{Result, number};

/// The start of the year 1 is Go's zero time. It is `null` in JSON and an empty
/// message in protobuf.
const YEAR_1: i64 = -62_135_596_800;
/// The end of the year 9999, the last year of RFC 3339.
const END_OF_YEAR_9999: i64 = 253_402_300_799;

/// A time, to the microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment(DateTime<Utc>);

impl Moment {
    /// Returns Go's zero time.
    pub(crate) fn zero() -> Result<Self> {
        Self::new(YEAR_1, 0)
    }

    pub(crate) fn is_zero(self) -> bool {
        self.seconds() == YEAR_1 && self.0.nanosecond() == 0
    }

    /// Makes a time from the fields of a `Timestamp`.
    pub fn new(seconds: i64, nanos: i32) -> Result<Self> {
        if !(YEAR_1..=END_OF_YEAR_9999).contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
            return Err(Unsupported);
        }
        let nanos = nanos.unsigned_abs();
        let at = DateTime::from_timestamp(seconds, nanos.saturating_sub(nanos % 1000));
        at.map(Self).ok_or(Unsupported)
    }

    pub(crate) fn seconds(self) -> i64 {
        self.0.timestamp()
    }

    /// Returns the nanoseconds of the second. They are whole microseconds.
    pub(crate) fn nanos(self) -> u32 {
        self.0.nanosecond()
    }

    /// Appends the time in quotes, with or without microseconds.
    pub fn write(self, micros: bool, out: &mut Vec<u8>) {
        let at = self.0.naive_utc();
        let mut text = *b"\"0000-00-00T00:00:00.000000Z\"";
        decimal(&mut text, 1..5, at.year().unsigned_abs());
        decimal(&mut text, 6..8, at.month());
        decimal(&mut text, 9..11, at.day());
        decimal(&mut text, 12..14, at.hour());
        decimal(&mut text, 15..17, at.minute());
        decimal(&mut text, 18..20, at.second());
        decimal(&mut text, 21..27, self.nanos() / 1000);
        if micros {
            out.extend_from_slice(&text);
        } else {
            out.extend_from_slice(&text[..20]);
            out.extend_from_slice(&text[27..]);
        }
    }

    /// Parses a time as Go does with the type's layout: with exactly six digits
    /// after the second, or with any number of digits, which are ignored. Go also
    /// accepts some forms that nobody writes (a comma, a single digit); they are
    /// refused here.
    pub(crate) fn parse(text: &[u8], micros: bool) -> Result<Self> {
        let pattern = text.get(..19).ok_or(WrongType)?;
        let fixed = |at: usize, byte: u8| pattern.get(at) == Some(&byte);
        if !(fixed(4, b'-')
            && fixed(7, b'-')
            && fixed(10, b'T')
            && fixed(13, b':')
            && fixed(16, b':'))
        {
            return Err(WrongType);
        }
        let year = digits(pattern, 0..4)?;
        let month = digits(pattern, 5..7)?;
        let day = digits(pattern, 8..10)?;
        let (hour, minute, second) = (
            digits(pattern, 11..13)?,
            digits(pattern, 14..16)?,
            digits(pattern, 17..19)?,
        );
        let date = i32::try_from(year).map_err(|_| WrongType)?;
        let date = NaiveDate::from_ymd_opt(date, month, day).ok_or(WrongType)?;
        let local = date.and_hms_opt(hour, minute, second).ok_or(WrongType)?;
        let rest = text.get(19..).unwrap_or_default();
        let (fraction, zone) = fraction(rest)?;
        if micros && fraction.len() != 6 {
            return Err(WrongType);
        }
        let offset = offset(zone)?;
        let seconds = local.and_utc().timestamp().saturating_sub(offset);
        if !(YEAR_1..=END_OF_YEAR_9999).contains(&seconds) {
            return Err(Unsupported);
        }
        let in_micros = if micros { digits(fraction, 0..6)? } else { 0 };
        // Go does not treat this as its zero time, although the seconds are equal.
        if seconds == YEAR_1 && !micros && fraction.iter().any(|digit| *digit != b'0') {
            return Err(Unsupported);
        }
        let at = DateTime::from_timestamp(seconds, in_micros.saturating_mul(1000));
        at.map(Self).ok_or(Unsupported)
    }
}

fn decimal(text: &mut [u8], at: std::ops::Range<usize>, mut value: u32) {
    for character in text.get_mut(at).into_iter().flatten().rev() {
        *character = number::digit((value % 10) as u8);
        value /= 10;
    }
}

fn digits(text: &[u8], at: std::ops::Range<usize>) -> Result<u32> {
    let mut digits = text.get(at).ok_or(WrongType)?.iter();
    let number = digits.try_fold(0u32, |value, byte| {
        let digit = char::from(*byte).to_digit(10)?;
        value.checked_mul(10)?.checked_add(digit)
    });
    number.ok_or(WrongType)
}

/// Returns the digits after a point, and the rest.
fn fraction(text: &[u8]) -> Result<(&[u8], &[u8])> {
    let Some(after) = text.strip_prefix(b".") else {
        return Ok((&[], text));
    };
    let end = after.iter().position(|b| !b.is_ascii_digit());
    match after.split_at_checked(end.unwrap_or(after.len())) {
        // Go reads digits beyond nanoseconds in its own way.
        Some((digits, zone)) if (1..=9).contains(&digits.len()) => Ok((digits, zone)),
        _ => Err(WrongType),
    }
}

/// Returns the offset from UTC in seconds, positive for the east.
fn offset(zone: &[u8]) -> Result<i64> {
    let (east, hours_and_minutes) = match zone {
        b"Z" => return Ok(0),
        [b'+', rest @ ..] => (true, rest),
        [b'-', rest @ ..] => (false, rest),
        _ => return Err(WrongType),
    };
    let [_, _, b':', _, _] = hours_and_minutes else {
        return Err(WrongType);
    };
    let hours = digits(hours_and_minutes, 0..2)?;
    let minutes = digits(hours_and_minutes, 3..5)?;
    let time = NaiveTime::from_hms_opt(hours, minutes, 0).ok_or(WrongType)?;
    let seconds = i64::from(time.num_seconds_from_midnight());
    Ok(if east {
        seconds
    } else {
        seconds.saturating_neg()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_and_read() {
        for (seconds, nanos, plain, micro) in [
            (0, 0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z"),
            (
                1_709_208_000,
                5_999,
                "2024-02-29T12:00:00Z",
                "2024-02-29T12:00:00.000005Z",
            ),
            (
                -1,
                999_999_999,
                "1969-12-31T23:59:59Z",
                "1969-12-31T23:59:59.999999Z",
            ),
            (
                YEAR_1,
                0,
                "0001-01-01T00:00:00Z",
                "0001-01-01T00:00:00.000000Z",
            ),
            (
                END_OF_YEAR_9999,
                0,
                "9999-12-31T23:59:59Z",
                "9999-12-31T23:59:59.000000Z",
            ),
        ] {
            let moment = Moment::new(seconds, nanos).unwrap();
            let (mut out, mut fine) = (Vec::new(), Vec::new());
            moment.write(false, &mut out);
            moment.write(true, &mut fine);
            assert_eq!(out, format!("\"{plain}\"").into_bytes());
            assert_eq!(fine, format!("\"{micro}\"").into_bytes());
            assert_eq!(
                Moment::parse(plain.as_bytes(), false).unwrap().seconds(),
                seconds
            );
            assert_eq!(Moment::parse(micro.as_bytes(), true).unwrap(), moment);
        }
        let zoned = Moment::parse(b"2024-03-01T01:30:00.25+02:00", false).unwrap();
        assert_eq!(zoned.seconds(), 1_709_249_400);
    }

    #[test]
    fn days_of_all_years_are_read_back() {
        let week = 7 * 24 * 3600;
        for seconds in (YEAR_1..=END_OF_YEAR_9999).step_by(week) {
            let moment = Moment::new(seconds, 0).unwrap();
            let mut quoted = Vec::new();
            moment.write(false, &mut quoted);
            let [b'"', text @ .., b'"'] = &quoted[..] else {
                panic!("{quoted:?}");
            };
            assert_eq!(Moment::parse(text, false), Ok(moment));
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2024-02-30T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-01-01T24:00:00Z",
            "2024-01-01T00:00:60Z",
            "2024-01-01 00:00:00Z",
            "2024-01-01T00:00:00",
            "2024-01-01T00:00:00+0200",
            "2024-01-01T00:00:00.Z",
            "2024-01-01T00:00:00z",
            "2024-1-1T00:00:00Z",
            "0000-12-31T00:00:00Z",
            "9999-12-31T23:59:59-01:00",
            "0001-01-01T00:00:00.5Z",
        ] {
            assert!(Moment::parse(text.as_bytes(), false).is_err(), "{text}");
        }
        for text in ["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.12345Z"] {
            assert!(Moment::parse(text.as_bytes(), true).is_err(), "{text}");
        }
        assert!(Moment::new(YEAR_1 - 1, 0).is_err() && Moment::new(0, -1).is_err());
    }
}
