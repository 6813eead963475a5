//! Ages as text: apimachinery's `duration.HumanDuration`.

use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta, Utc};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

/// The longest duration. Go's durations end at 2^63 nanoseconds, and longer
/// ones are cut to that.
const LONGEST_SECONDS: i64 = i64::MAX / 1_000_000_000;

/// 1 January of the year 1 in Unix seconds.
const ZERO_TIME: i64 = -62_135_596_800;

/// A time in an object. Go's zero time and null are not times and have no age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) DateTime<Utc>);

impl Moment {
    /// Parses RFC 3339 as the API writes times. The result is `Ok(None)` for
    /// the zero time.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, chrono::ParseError> {
        let at = DateTime::parse_from_rfc3339(text)?.with_timezone(&Utc);
        Ok(Self::told(at))
    }

    /// Parses RFC 3339 as Go's `time.Parse` does, since anybody may have written
    /// the text: an hour may have one digit, a fraction may follow a comma, and
    /// offsets may reach a day. Returns `None` if Go refuses the text, and
    /// `Some(None)` for the zero time.
    pub(crate) fn parse_go(text: &str) -> Option<Option<Self>> {
        let (year, rest) = number(text, 4, 4)?;
        let (month, rest) = number(rest.strip_prefix('-')?, 2, 2)?;
        let (day, rest) = number(rest.strip_prefix('-')?, 2, 2)?;
        let (hour, rest) = number(rest.strip_prefix('T')?, 1, 2)?;
        let (minute, rest) = number(rest.strip_prefix(':')?, 2, 2)?;
        let (second, rest) = number(rest.strip_prefix(':')?, 2, 2)?;
        let (nanos, rest) = match rest.strip_prefix(['.', ',']) {
            None => (0, rest),
            Some(fraction) => {
                let (_, rest) = number(fraction, 1, usize::MAX)?;
                // Digits beyond nanoseconds are ignored.
                let digits = fraction.len().saturating_sub(rest.len());
                let shown = fraction.get(..digits.min(9))?;
                (format!("{shown:0<9}").parse().ok()?, rest)
            }
        };
        let offset = if rest == "Z" {
            TimeDelta::zero()
        } else {
            let east = match rest.chars().next()? {
                '+' => true,
                '-' => false,
                _ => return None,
            };
            let (hours, rest) = number(rest.get(1..)?, 2, 2)?;
            let (minutes, rest) = number(rest.strip_prefix(':')?, 2, 2)?;
            if !rest.is_empty() || hours > 24 || minutes > 60 {
                return None;
            }
            let minutes = hours.saturating_mul(60).saturating_add(minutes);
            let minutes = i64::from(minutes);
            TimeDelta::minutes(if east {
                minutes
            } else {
                minutes.saturating_neg()
            })
        };
        let date = NaiveDate::from_ymd_opt(year.try_into().ok()?, month, day)?;
        let time = NaiveTime::from_hms_nano_opt(hour, minute, second, nanos)?;
        let local = date.and_time(time).and_utc();
        Some(Self::told(local.checked_sub_signed(offset)?))
    }

    /// Returns the time, or `None` for Go's zero time.
    fn told(at: DateTime<Utc>) -> Option<Self> {
        let zero = at.timestamp() == ZERO_TIME && at.timestamp_subsec_nanos() == 0;
        (!zero).then_some(Self(at))
    }

    pub(crate) fn age(self, now: DateTime<Utc>) -> Age {
        human_duration(now.signed_duration_since(self.0))
    }
}

/// Reads a number of `least` to `most` digits. Returns the number and the rest
/// of the text.
fn number(text: &str, least: usize, most: usize) -> Option<(u32, &str)> {
    let digits = text
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count()
        .min(most);
    let (number, rest) = text.split_at_checked(digits)?;
    // The value of a long fraction is not used, only the number of its digits.
    let value = number.get(..digits.min(9))?.parse().ok()?;
    (digits >= least).then_some((value, rest))
}

/// The most bytes of an age. Ages are short (`292y`, `7h59m`); the longest text
/// is `<invalid>`.
const LONGEST_AGE: usize = 12;

/// An age as text. Lists write one for every row, so it takes no allocation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Age {
    text: [u8; LONGEST_AGE],
    length: usize,
}

impl Age {
    fn push(&mut self, text: &[u8]) {
        let end = self.length.saturating_add(text.len());
        if let Some(free) = self.text.get_mut(self.length..end) {
            free.copy_from_slice(text);
            self.length = end;
        }
    }

    fn number(&mut self, number: i64, unit: u8) {
        let (mut digits, mut start, mut rest) = ([0; 4], 0, number);
        for (at, digit) in digits.iter_mut().enumerate().rev() {
            *digit = b'0'.saturating_add(u8::try_from(rest % 10).unwrap_or(0));
            start = at;
            rest /= 10;
            if rest <= 0 {
                break;
            }
        }
        self.push(digits.get(start..).unwrap_or_default());
        self.push(&[unit]);
    }

    fn one(number: i64, unit: u8) -> Self {
        let mut age = Self::default();
        age.number(number, unit);
        age
    }

    /// Makes an age of two units. The second is left out if it is zero.
    fn two(first: i64, first_unit: u8, second: i64, second_unit: u8) -> Self {
        let mut age = Self::one(first, first_unit);
        if second != 0 {
            age.number(second, second_unit);
        }
        age
    }

    fn invalid() -> Self {
        let mut age = Self::default();
        age.push(b"<invalid>");
        age
    }

    pub(crate) fn as_str(&self) -> &str {
        let text = self.text.get(..self.length).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// Returns the text as the content of a JSON string, escaped as Go does.
    pub(crate) fn as_json(&self) -> &[u8] {
        match self.text.get(..self.length).unwrap_or_default() {
            [b'<', ..] => br"\u003cinvalid\u003e",
            text => text,
        }
    }
}

/// Formats a duration with two or three significant figures: `5m10s`, `3h55m`,
/// `2y30d`.
pub(crate) fn human_duration(duration: TimeDelta) -> Age {
    let seconds = duration
        .num_seconds()
        .clamp(-LONGEST_SECONDS, LONGEST_SECONDS);
    // Clocks differ, so a second or two in the future counts as now.
    if seconds < -1 {
        return Age::invalid();
    }
    let seconds = seconds.max(0);
    let minutes = seconds / MINUTE;
    let hours = seconds / HOUR;
    let days = hours / 24;
    match minutes {
        ..2 => return Age::one(seconds, b's'),
        2..10 => return Age::two(minutes, b'm', seconds % MINUTE, b's'),
        10..180 => return Age::one(minutes, b'm'),
        _ => {}
    }
    match hours {
        ..8 => Age::two(hours, b'h', minutes % 60, b'm'),
        8..48 => Age::one(hours, b'h'),
        48..192 => Age::two(days, b'd', hours % 24, b'h'),
        // Up to two years, up to eight years, and longer.
        192..17_520 => Age::one(days, b'd'),
        17_520..70_080 => Age::two(days / 365, b'y', days % 365, b'd'),
        _ => Age::one(days / 365, b'y'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::go_json;

    #[test]
    fn durations_read_as_in_kubectl() {
        const DAY: i64 = 24 * HOUR;
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (599, "9m59s"),
            (600, "10m"),
            (179 * 60 + 59, "179m"),
            (180 * 60, "3h"),
            (3 * HOUR + 55 * 60, "3h55m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR, "8h"),
            (48 * HOUR - 1, "47h"),
            (48 * HOUR, "2d"),
            (49 * HOUR, "2d1h"),
            (8 * DAY, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (731 * DAY, "2y1d"),
            (8 * 365 * DAY, "8y"),
            (1000 * 365 * DAY, "292y"),
        ] {
            let age = human_duration(TimeDelta::seconds(seconds));
            assert_eq!(age.as_str(), expected);
            let json = String::from_utf8(go_json::to_vec(expected)).unwrap();
            assert_eq!(age.as_json(), json.trim_matches('"').as_bytes());
        }
        let age = human_duration(TimeDelta::milliseconds(-1999));
        assert_eq!(age.as_str(), "0s");
    }

    #[test]
    fn zero_times_have_no_age() {
        assert_eq!(Moment::parse("0001-01-01T00:00:00Z"), Ok(None));
        assert!(
            Moment::parse("2026-11-21T03:48:19.123456Z")
                .unwrap()
                .is_some()
        );
        assert!(Moment::parse("bad").is_err());
    }

    /// The expected results are those of Go 1.26.
    #[test]
    fn times_are_read_as_by_go() {
        for (text, expected) in [
            ("2026-01-02T03:04:05Z", Some(1_767_323_045)),
            ("2026-01-02T3:04:05Z", Some(1_767_323_045)),
            ("2026-01-02T03:04:05.1234567891Z", Some(1_767_323_045)),
            ("2026-01-02T03:04:05,5Z", Some(1_767_323_045)),
            ("2026-01-02T03:04:05+24:60", Some(1_767_323_045 - 25 * HOUR)),
            ("2026-01-02T03:04:05-01:30", Some(1_767_323_045 + 90 * 60)),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800)),
            ("2023-02-29T00:00:00Z", None),
            ("2026-01-02T03:04:60Z", None),
            ("2026-01-02T24:04:05Z", None),
            ("2026-01-02T03:04:05", None),
            ("2026-01-02T03:04:05.Z", None),
            ("2026-01-02T03:04:05z", None),
            ("2026-01-02t03:04:05Z", None),
            ("2026-01-02 03:04:05Z", None),
            ("2026-1-02T03:04:05Z", None),
            ("2026-01-02T03:4:05Z", None),
            ("2026-01-02T003:04:05Z", None),
            ("2026-01-02T03:04:05+25:00", None),
            ("2026-01-02T03:04:05+01", None),
            ("2026-01-02T03:04:05Zx", None),
            ("26-01-02T03:04:05Z", None),
            ("+026-01-02T03:04:05Z", None),
            ("\u{664}026-01-02T03:04:05Z", None),
            ("", None),
        ] {
            let at = Moment::parse_go(text).map(|m| m.unwrap().0.timestamp());
            assert_eq!(at, expected, "{text}");
        }
        assert_eq!(Moment::parse_go("0001-01-01T00:00:00Z"), Some(None));
        assert_eq!(Moment::parse_go("0001-01-01T01:00:00+01:00"), Some(None));
    }
}
