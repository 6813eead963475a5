//! `Duration`: nanoseconds in protobuf, `1h2m3.5s` in JSON.

use super::NotTranscodable::WrongType;
use super::Result;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// As Go's `Duration.String`.
pub fn text(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    if size == 0 {
        return "0s".to_owned();
    }
    if size < SECOND {
        let (unit, name) = match size {
            ..MICROSECOND => (1, "ns"),
            ..MILLISECOND => (MICROSECOND, "µs"),
            _ => (MILLISECOND, "ms"),
        };
        return format!("{sign}{}{name}", decimal(size, unit));
    }
    let seconds = decimal(size % MINUTE, SECOND);
    let (hours, minutes) = (size / HOUR, size / MINUTE % 60);
    if hours > 0 {
        format!("{sign}{hours}h{minutes}m{seconds}s")
    } else if minutes > 0 {
        format!("{sign}{minutes}m{seconds}s")
    } else {
        format!("{sign}{seconds}s")
    }
}

/// `size` in a unit, with the digits after the point that are needed.
fn decimal(size: u64, unit: u64) -> String {
    let (whole, fraction) = (size / unit, size % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{fraction:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

/// As Go's `time.ParseDuration`.
pub fn parse(text: &str) -> Result<i64> {
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, text.get(1..).unwrap_or_default()),
        Some(b'+') => (false, text.get(1..).unwrap_or_default()),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(WrongType);
    }
    let mut total = 0u64;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(WrongType);
        }
        let end = after.find(|c: char| c == '.' || c.is_ascii_digit());
        let (name, after) = after.split_at(end.unwrap_or(after.len()));
        let unit = match name {
            "ns" => 1,
            "us" | "µs" | "μs" => MICROSECOND,
            "ms" => MILLISECOND,
            "s" => SECOND,
            "m" => MINUTE,
            "h" => HOUR,
            _ => return Err(WrongType),
        };
        let whole: u64 = match whole {
            "" => 0,
            whole => whole.parse().map_err(|_| WrongType)?,
        };
        let size = whole.checked_mul(unit).ok_or(WrongType)?;
        let part = parts(fraction, unit)?;
        total = total
            .checked_add(size)
            .and_then(|t| t.checked_add(part))
            .ok_or(WrongType)?;
        rest = after;
    }
    match i64::try_from(total) {
        Ok(total) if negative => Ok(-total),
        Ok(total) => Ok(total),
        Err(_) if negative && total == i64::MIN.unsigned_abs() => Ok(i64::MIN),
        Err(_) => Err(WrongType),
    }
}

/// A fraction of a unit in nanoseconds, by Go's floating-point arithmetic.
fn parts(fraction: &str, unit: u64) -> Result<u64> {
    // Go ignores the digits that overflow; nobody writes so many.
    if fraction.len() > 18 {
        return Err(WrongType);
    }
    if fraction.is_empty() {
        return Ok(0);
    }
    let digits: u64 = fraction.parse().map_err(|_| WrongType)?;
    let scale = (0..fraction.len()).fold(1f64, |scale, _| scale * 10.0);
    Ok((digits as f64 * (unit as f64 / scale)) as u64)
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_go_writes_them() {
        for (nanos, expected) in [
            (0, "0s"),
            (1, "1ns"),
            (1100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (245_000_000_000, "4m5s"),
            (245_001_000_000, "4m5.001s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (480_000_000_001, "8m0.000000001s"),
            (3_600_000_000_000, "1h0m0s"),
            (-90_000_000_000, "-1m30s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(text(nanos), expected);
            assert_eq!(parse(expected), Ok(nanos), "{expected}");
        }
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (written, nanos) in [
            ("0", 0),
            ("+5s", 5_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("1h1h", 7_200_000_000_000),
            ("10us", 10_000),
        ] {
            assert_eq!(parse(written), Ok(nanos), "{written}");
        }
        for wrong in [
            "",
            "-",
            "3",
            ".s",
            "1d",
            "1 s",
            "s",
            "9223372036854775808ns",
            "1h1",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
