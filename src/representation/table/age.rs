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

    pub fn age(self, now: DateTime<Utc>) -> String {
        human_duration(now - self.0)
    }
}

/// Two or three significant figures: `5m10s`, `3h55m`, `2y30d`.
pub fn human_duration(duration: TimeDelta) -> String {
    let seconds = duration
        .num_seconds()
        .clamp(-LONGEST_SECONDS, LONGEST_SECONDS);
    // Clocks differ: a second or two in the future is now.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    if seconds < 0 {
        return "0s".to_owned();
    }
    if seconds < 2 * MINUTE {
        return format!("{seconds}s");
    }
    let minutes = seconds / MINUTE;
    if minutes < 10 {
        return two(minutes, "m", seconds % MINUTE, "s");
    }
    if minutes < 3 * 60 {
        return format!("{minutes}m");
    }
    let hours = seconds / HOUR;
    let days = hours / 24;
    match hours {
        ..8 => two(hours, "h", minutes % 60, "m"),
        8..48 => format!("{hours}h"),
        48..192 => two(days, "d", hours % 24, "h"),
        // Up to two years, up to eight, and beyond.
        192..17_520 => format!("{days}d"),
        17_520..70_080 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

/// The second unit is left out when it is zero.
fn two(a: i64, a_unit: &str, b: i64, b_unit: &str) -> String {
    if b == 0 {
        format!("{a}{a_unit}")
    } else {
        format!("{a}{a_unit}{b}{b_unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(human_duration(TimeDelta::seconds(seconds)), expected);
        }
        assert_eq!(human_duration(TimeDelta::milliseconds(-1999)), "0s");
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
