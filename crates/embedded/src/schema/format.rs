//! Checks `format` of strings and integers (apiextensions-apiserver
//! `validation/formats.go`). Formats that are not named here accept every
//! value.

use std::net::{Ipv4Addr, Ipv6Addr};

use kubernetes_wire::api::formats::{is_base64, is_date, is_datetime, is_uuid};

pub(super) fn text(format: &str, text: &str) -> bool {
    match format {
        "date-time" => is_datetime(text),
        "date" => is_date(text),
        "byte" => is_base64(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "uuid" => is_uuid(text),
        "email" => text
            .split_once('@')
            .is_some_and(|(name, host)| !name.is_empty() && !host.is_empty()),
        _ => true,
    }
}

/// Tells whether an integer fits its format; `int64` holds every integer that is read.
pub(super) fn integer(format: &str, number: i64) -> bool {
    format != "int32" || i32::try_from(number).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_their_format() {
        for (format, good, bad) in [
            ("date-time", "2020-01-01T00:00:00Z", "2020-01-01"),
            ("date", "2020-02-29", "2021-02-29"),
            ("byte", "aGVsbG8=", "%%%"),
            ("ipv4", "10.0.0.1", "10.0.0"),
            ("ipv6", "::1", "10.0.0.1"),
            ("uuid", "7fa3b6c0-6a3e-4a52-b0e4-0a4b2f6a6d10", "7fa3"),
            ("email", "a@b.c", "nomail"),
        ] {
            assert!(text(format, good), "{format}");
            assert!(!text(format, bad), "{format}");
        }
        assert!(integer("int32", 5) && !integer("int32", 3_000_000_000));
        assert!(integer("int64", 3_000_000_000));
    }
}
