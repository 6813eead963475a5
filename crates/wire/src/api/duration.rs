//! Durations in Go's format. Every Kubernetes file and flag uses it.

use std::time::Duration;

/// The longest duration. Go's `time.Duration` is an i64 of nanoseconds: 292
/// years.
const MAX_NANOS: f64 = i64::MAX as f64;

/// The units of `time.ParseDuration`. If one unit begins with another, the
/// longer one comes first.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("μs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// Like `time.ParseDuration`, but without signs: `2m`, `1h30m`, `1.5s`, `0`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos = 0.0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .filter(|&n| n > 0)?;
        let (number, tail) = rest.split_at(digits);
        // `f64` reads "1." and ".5" as Go does, and refuses "." and "1.2.3".
        let number: f64 = number.parse().ok()?;
        let mut units = UNITS.iter();
        let (after, scale) =
            units.find_map(|(unit, scale)| Some((tail.strip_prefix(unit)?, scale)))?;
        nanos += number * scale;
        rest = after;
    }
    (!text.is_empty() && nanos < MAX_NANOS).then(|| Duration::from_nanos(nanos.round() as u64))
}

/// Formats a duration of whole milliseconds as Go does: `1h30m0s`, `500ms`.
pub fn format_duration(d: Duration) -> String {
    let seconds = d.as_secs();
    if seconds == 0 && d.subsec_millis() > 0 {
        return format!("{}ms", d.subsec_millis());
    }
    let fraction = match d.subsec_millis() {
        0 => String::new(),
        ms => format!(".{ms:03}").trim_end_matches('0').to_owned(),
    };
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (h, m) {
        (0, 0) => format!("{s}{fraction}s"),
        (0, m) => format!("{m}m{s}{fraction}s"),
        (h, m) => format!("{h}h{m}m{s}{fraction}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_go_reads_them() {
        for (text, expected) in [
            ("0", Some(0)),
            ("0s", Some(0)),
            ("500ms", Some(500)),
            ("10s", Some(10_000)),
            ("2m", Some(120_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("1m0.5s", Some(60_500)),
            ("", None),
            ("10", None),
            ("s", None),
            ("-1s", None),
            ("1d", None),
            ("1s ", None),
            ("1..2s", None),
            ("1e3s", None),
            ("9999999h", None),
        ] {
            assert_eq!(
                parse_duration(text),
                expected.map(Duration::from_millis),
                "{text}"
            );
        }
        assert_eq!(format_duration(Duration::from_secs(5400)), "1h30m0s");
        assert_eq!(format_duration(Duration::from_millis(500)), "500ms");
        assert_eq!(format_duration(Duration::from_millis(1500)), "1.5s");
        assert_eq!(format_duration(Duration::ZERO), "0s");
    }
}
