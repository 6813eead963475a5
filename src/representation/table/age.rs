//! How long ago, in words: apimachinery's `duration.HumanDuration`.

use chrono::{DateTime, TimeDelta, Utc};

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;

/// Go's durations end at 2^63 nanoseconds: longer ones stick there.
const LONGEST_SECONDS: i64 = i64::MAX / 1_000_000_000;

/// A moment that an object tells of. Go's zero time and null have no age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub DateTime<Utc>);

impl Moment {
    /// From RFC 3339, as the API writes times; `Ok(None)` for the zero time.
    pub fn parse(text: &str) -> Result<Option<Self>, chrono::ParseError> {
        let at = DateTime::parse_from_rfc3339(text)?.with_timezone(&Utc);
        Ok((at.to_rfc3339() != "0001-01-01T00:00:00+00:00").then_some(Self(at)))
    }

    pub fn age(self, now: DateTime<Utc>) -> Age {
        human_duration(now - self.0)
    }
}

/// `292y` and `7h59m`, at most `<invalid>`.
const LONGEST_AGE: usize = 12;

/// How old something is, in words. Lists write one for every row: it is made
/// without an allocation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Age {
    text: [u8; LONGEST_AGE],
    length: usize,
}

impl Age {
    fn push(&mut self, text: &[u8]) {
        let end = self.length + text.len();
        if let Some(free) = self.text.get_mut(self.length..end) {
            free.copy_from_slice(text);
            self.length = end;
        }
    }

    /// A number, which is not negative, and its unit.
    fn number(&mut self, number: i64, unit: u8) {
        let (mut digits, mut at, mut rest) = ([0; 4], 4, number);
        while at > 0 && (rest > 0 || at == digits.len()) {
            at -= 1;
            if let Some(digit) = digits.get_mut(at) {
                *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            }
            rest /= 10;
        }
        self.push(digits.get(at..).unwrap_or_default());
        self.push(&[unit]);
    }

    fn one(number: i64, unit: u8) -> Self {
        let mut age = Self::default();
        age.number(number, unit);
        age
    }

    /// The second unit is left out when it is zero.
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

    pub fn as_str(&self) -> &str {
        let text = self.text.get(..self.length).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// Inside a JSON string, as Go escapes it.
    pub fn as_json(&self) -> &[u8] {
        match self.text.get(..self.length).unwrap_or_default() {
            [b'<', ..] => br"\u003cinvalid\u003e",
            text => text,
        }
    }
}

/// Two or three significant figures: `5m10s`, `3h55m`, `2y30d`.
pub fn human_duration(duration: TimeDelta) -> Age {
    let seconds = duration
        .num_seconds()
        .clamp(-LONGEST_SECONDS, LONGEST_SECONDS);
    // Clocks differ: a second or two in the future is now.
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
        // Up to two years, up to eight, and beyond.
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
}
