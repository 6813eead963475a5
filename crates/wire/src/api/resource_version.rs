//! resourceVersion: an opaque string on the wire. Since Kubernetes 1.35 it is
//! by contract a comparable integer (KEP-5504).

use std::fmt;

/// A parsed resourceVersion. 0 means "any".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceVersion(pub u64);

impl ResourceVersion {
    /// Parses a version. The error is the message of Go's `strconv.ParseUint`,
    /// which the API server passes on to clients.
    pub fn parse(text: &str) -> Result<Self, String> {
        let quoted = || crate::api::query::go_quote(text);
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!(
                "strconv.ParseUint: parsing {}: invalid syntax",
                quoted()
            ));
        }
        text.parse().map(Self).map_err(|_| {
            format!(
                "strconv.ParseUint: parsing {}: value out of range",
                quoted()
            )
        })
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unsigned_decimals_parse() {
        assert_eq!(ResourceVersion::parse("42"), Ok(ResourceVersion(42)));
        assert_eq!(
            ResourceVersion::parse("abc").unwrap_err(),
            r#"strconv.ParseUint: parsing "abc": invalid syntax"#
        );
        assert_eq!(
            ResourceVersion::parse("99999999999999999999").unwrap_err(),
            r#"strconv.ParseUint: parsing "99999999999999999999": value out of range"#
        );
        for bad in ["", "-1", "+1", "1_0", " 1", "0x1"] {
            assert!(ResourceVersion::parse(bad).is_err(), "{bad}");
        }
    }
}
