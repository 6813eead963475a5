//! Formats of texts, as the schemas of Kubernetes' API name them (kube-openapi
//! `validation/strfmt`).

use chrono::NaiveDate;

/// The lengths of a UUID's parts.
const UUID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];

/// Tells whether a text is a UUID. Each of its dashes may be left out.
pub fn is_uuid(text: &str) -> bool {
    let mut rest = text;
    for (n, digits) in UUID_PARTS.into_iter().enumerate() {
        if n > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((part, after)) = rest.split_at_checked(digits) else {
            return false;
        };
        if !part.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// Tells whether a text is base64 with its padding. The empty text is not.
pub fn is_base64(text: &str) -> bool {
    let unpadded = text.strip_suffix("==");
    let unpadded = unpadded.or(text.strip_suffix('=')).unwrap_or(text);
    let is_digit = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    !text.is_empty() && text.len().is_multiple_of(4) && unpadded.bytes().all(is_digit)
}

/// Tells whether a text is a date: `2026-01-31`.
pub fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut part = |digits| number(parts.next()?, digits);
    let (Some(year), Some(month), Some(day)) = (part(4), part(2), part(2)) else {
        return false;
    };
    let is_whole = parts.next().is_none();
    let year = i32::try_from(year);
    is_whole && year.is_ok_and(|year| NaiveDate::from_ymd_opt(year, month, day).is_some())
}

/// Tells whether a text is a date and a time: `2026-01-31T23:59:59.5Z`. As in
/// kube-apiserver, any character may begin the fraction, the hours of the zone have no
/// limit, and what comes after a second `T` is not read.
pub fn is_datetime(text: &str) -> bool {
    let mut parts = text.split(['t', 'T']);
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    is_date(date) && is_time(time)
}

fn is_time(text: &str) -> bool {
    let Some((clock, rest)) = text.split_at_checked(8) else {
        return false;
    };
    let mut parts = clock.split(':');
    let mut is_below = |limit| {
        let part = parts.next().and_then(|part| number(part, 2));
        part.is_some_and(|part| part < limit)
    };
    let is_clock = is_below(24) && is_below(60) && is_below(60);
    is_clock && (is_zone(rest) || after_fraction(rest).is_some_and(is_zone))
}

/// Returns what comes after one character and digits.
fn after_fraction(text: &str) -> Option<&str> {
    let mut characters = text.chars();
    characters.next().filter(|c| *c != '\n')?;
    let digits = characters.as_str();
    let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < digits.len()).then_some(rest)
}

fn is_zone(text: &str) -> bool {
    let Some(offset) = text.strip_prefix(['+', '-']) else {
        return matches!(text, "z" | "Z");
    };
    let parts = offset.split_once(':');
    parts.is_some_and(|(hours, minutes)| number(hours, 2).is_some() && number(minutes, 2).is_some())
}

/// Reads a number of exactly so many digits.
fn number(text: &str, digits: usize) -> Option<u32> {
    let is_number = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids() {
        for good in [
            "7fa3b6c0-6a3e-4a52-b0e4-0a4b2f6a6d10",
            "7FA3B6C06a3e4a52b0e40a4b2f6a6d10",
            "7fa3b6c06a3e-4a52b0e4-0a4b2f6a6d10",
        ] {
            assert!(is_uuid(good), "{good}");
        }
        for bad in [
            "",
            "7fa3b6c0--6a3e-4a52-b0e4-0a4b2f6a6d10",
            "-7fa3b6c0-6a3e-4a52-b0e4-0a4b2f6a6d10",
            "7fa3b6c0-6a3e-4a52-b0e4-0a4b2f6a6d1",
            "7fa3b6c0-6a3e-4a52-b0e4-0a4b2f6a6d100",
            "{7fa3b6c0-6a3e-4a52-b0e4-0a4b2f6a6d10}",
            "7fa3b6c0-6a3e-4a52-b0e4-0a4b2f6a6dä",
        ] {
            assert!(!is_uuid(bad), "{bad}");
        }
    }

    #[test]
    fn base64() {
        for good in ["YQ==", "YWI=", "YWJj", "+/+/", "YWJjYQ==", "YR=="] {
            assert!(is_base64(good), "{good}");
        }
        for bad in [
            "", "=", "====", "Y===", "YQ=", "YQ", "Y-_=", "YQ==YQ==", "ä==",
        ] {
            assert!(!is_base64(bad), "{bad}");
        }
    }

    #[test]
    fn dates_and_times() {
        for good in ["2026-01-31", "0000-02-29", "2024-02-29"] {
            assert!(is_date(good), "{good}");
            assert!(is_datetime(&format!("{good}T00:00:00Z")), "{good}");
        }
        for bad in [
            "",
            "2026-1-31",
            "2026-02-29",
            "2026-13-01",
            "+026-01-01",
            "2026-01-01 ",
            "2026-01-01-",
        ] {
            assert!(!is_date(bad), "{bad}");
            assert!(!is_datetime(&format!("{bad}T00:00:00Z")), "{bad}");
        }
        for good in [
            "23:59:59Z",
            "00:00:00z",
            "00:00:00.5+01:00",
            "00:00:00,5-99:99",
            "00:00:00ä5Z",
            "00:00:00ZTrest",
        ] {
            assert!(is_datetime(&format!("2026-01-01t{good}")), "{good}");
        }
        for bad in [
            "",
            "24:00:00Z",
            "00:60:00Z",
            "00:00:60Z",
            "0:00:00Z",
            "00:00:00",
            "00:00:00.Z",
            "00:00:00\n5Z",
            "00:00:00+01",
            "00:00:00+1:00",
            "00:00:00Z ",
        ] {
            assert!(!is_datetime(&format!("2026-01-01T{bad}")), "{bad}");
        }
    }
}
