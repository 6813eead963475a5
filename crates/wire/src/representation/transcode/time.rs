//! `Time` and `MicroTime`: seconds (and nanoseconds) since 1970 in protobuf,
//! RFC 3339 in JSON.

use super::NotTranscodable::{Unsupported, WrongType};
use super::Result;

/// The start of the year 1, which is Go's zero time: `null` in JSON, an empty
/// message in protobuf.
const ZERO: i64 = -62_135_596_800;
/// The end of the year 9999, with which RFC 3339 ends.
const LAST: i64 = 253_402_300_799;
const DAY: i64 = 86_400;

/// A moment, to the microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub seconds: i64,
    pub micros: u32,
}

impl Moment {
    /// Go's zero time.
    pub const ZERO: Self = Self {
        seconds: ZERO,
        micros: 0,
    };

    pub fn is_zero(self) -> bool {
        self.seconds == ZERO && self.micros == 0
    }

    /// Of the fields of a `Timestamp`.
    pub fn new(seconds: i64, nanos: i32) -> Result<Self> {
        if !(ZERO..=LAST).contains(&seconds) || !(0..1_000_000_000).contains(&nanos) {
            return Err(Unsupported);
        }
        let micros = nanos.unsigned_abs() / 1000;
        Ok(Self { seconds, micros })
    }

    /// Appends it in quotes, with microseconds or without.
    pub fn write(self, micros: bool, out: &mut Vec<u8>) {
        let days = self.seconds.div_euclid(DAY);
        let second = self.seconds.rem_euclid(DAY);
        let (year, month, day) = civil(days);
        let mut text = *b"\"0000-00-00T00:00:00.000000Z\"";
        decimal(&mut text, 1..5, year);
        decimal(&mut text, 6..8, month);
        decimal(&mut text, 9..11, day);
        decimal(&mut text, 12..14, second / 3600);
        decimal(&mut text, 15..17, second / 60 % 60);
        decimal(&mut text, 18..20, second % 60);
        decimal(&mut text, 21..27, i64::from(self.micros));
        if micros {
            out.extend_from_slice(&text);
        } else {
            out.extend_from_slice(&text[..20]);
            out.extend_from_slice(&text[27..]);
        }
    }

    /// What Go reads with the layout of the type: with exactly six digits of a
    /// second, or any number of which none counts. Go takes some more that
    /// nobody writes (a comma, a single digit): those are refused.
    pub fn parse(text: &[u8], micros: bool) -> Result<Self> {
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
        let exists = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
        if !exists || hour > 23 || minute > 59 || second > 59 {
            return Err(WrongType);
        }
        let rest = text.get(19..).unwrap_or_default();
        let (fraction, zone) = fraction(rest)?;
        if micros && fraction.len() != 6 {
            return Err(WrongType);
        }
        let offset = offset(zone)?;
        let seconds = days(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
        if !(ZERO..=LAST).contains(&seconds) {
            return Err(Unsupported);
        }
        let in_micros = if micros { digits(fraction, 0..6)? } else { 0 };
        // Go would not take this for its zero time, though it has its seconds.
        if seconds == ZERO && !micros && fraction.iter().any(|digit| *digit != b'0') {
            return Err(Unsupported);
        }
        let micros = u32::try_from(in_micros).unwrap_or_default();
        Ok(Self { seconds, micros })
    }
}

fn decimal(text: &mut [u8], at: std::ops::Range<usize>, mut value: i64) {
    for digit in text.get_mut(at).into_iter().flatten().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

fn digits(text: &[u8], at: std::ops::Range<usize>) -> Result<i64> {
    text.get(at)
        .ok_or(WrongType)?
        .iter()
        .try_fold(0, |value, byte| {
            if byte.is_ascii_digit() {
                Ok(value * 10 + i64::from(byte - b'0'))
            } else {
                Err(WrongType)
            }
        })
}

/// The digits after a point, and what follows.
fn fraction(text: &[u8]) -> Result<(&[u8], &[u8])> {
    let Some(after) = text.strip_prefix(b".") else {
        return Ok((&[], text));
    };
    let end = after.iter().position(|b| !b.is_ascii_digit());
    match after.split_at_checked(end.unwrap_or(after.len())) {
        // More digits than nanoseconds have: Go's reading of them is its own.
        Some((digits, zone)) if (1..=9).contains(&digits.len()) => Ok((digits, zone)),
        _ => Err(WrongType),
    }
}

/// Seconds east of UTC.
fn offset(zone: &[u8]) -> Result<i64> {
    let (sign, hours, minutes) = match zone {
        b"Z" => return Ok(0),
        [b'+', h, g, b':', m, n] => (1, [*h, *g], [*m, *n]),
        [b'-', h, g, b':', m, n] => (-1, [*h, *g], [*m, *n]),
        _ => return Err(WrongType),
    };
    let (hours, minutes) = (digits(&hours, 0..2)?, digits(&minutes, 0..2)?);
    if hours > 23 || minutes > 59 {
        return Err(WrongType);
    }
    Ok(sign * (hours * 3600 + minutes * 60))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a day of the proleptic Gregorian calendar, counted
/// in years that begin in March, so that leap days end them.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The year, month and day: the inverse of [`days`].
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = (month + 2) % 12 + 1;
    (era * 400 + year + i64::from(month <= 2), month, day)
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
                ZERO,
                0,
                "0001-01-01T00:00:00Z",
                "0001-01-01T00:00:00.000000Z",
            ),
            (
                LAST,
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
                Moment::parse(plain.as_bytes(), false).unwrap().seconds,
                seconds
            );
            assert_eq!(Moment::parse(micro.as_bytes(), true).unwrap(), moment);
        }
        let zoned = Moment::parse(b"2024-03-01T01:30:00.25+02:00", false).unwrap();
        assert_eq!(zoned.seconds, 1_709_249_400);
    }

    #[test]
    fn every_day_is_its_own() {
        for day in -719_162..2_932_896 {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month, of_month), day);
            assert!((1..=days_in(year, month)).contains(&of_month));
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2024-02-30T00:00:00Z",
            "2023-02-29T00:00:00Z",
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
        assert!(Moment::new(ZERO - 1, 0).is_err() && Moment::new(0, -1).is_err());
    }
}
