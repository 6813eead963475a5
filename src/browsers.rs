//! The rules for browsers: CORS (which other origins' pages may read answers) and HSTS
//! (RFC 6797: browsers use TLS alone). They are those of kube-apiserver's flags
//! `--cors-allowed-origins` and `--strict-transport-security-directives`.

use http::HeaderValue;
use kubernetes_wire::api::go_regexp;
use regex::{Regex, RegexBuilder};

/// A longer origin matches no pattern. A host name has 253 bytes at most.
const ORIGIN_BYTES: usize = 1 << 10;

/// The most bytes that a compiled pattern takes.
const PATTERN_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Browsers {
    pub allowed_origins: Vec<OriginPattern>,
    /// The value of `Strict-Transport-Security`.
    pub strict_transport_security: Option<HeaderValue>,
}

#[derive(Clone, Debug)]
pub struct OriginPattern(Regex);

impl PartialEq for OriginPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl OriginPattern {
    /// Compiles a pattern, which must mark where an origin's host begins and ends:
    /// `example.com` alone would also allow `https://example.com.evil.test`
    /// (CVE-2022-1996). Fails with the reason.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let begins = ["^", "//"].iter().any(|mark| pattern.contains(mark));
        let ends = ["$", ":"].iter().any(|mark| pattern.contains(mark));
        if !begins || !ends {
            return Err("must say where the host begins (^ or //) and ends ($ or :)".to_owned());
        }
        let compiled = RegexBuilder::new(&go_regexp::translated(pattern))
            .size_limit(PATTERN_BYTES)
            .build();
        let compiled = compiled.map_err(|error| format!("is no regular expression: {error}"));
        Ok(Self(compiled?))
    }
}

impl Browsers {
    /// Tells whether the pages of this origin may read answers.
    pub fn allows(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str() else {
            return false;
        };
        let has_length = (1..=ORIGIN_BYTES).contains(&origin.len());
        has_length && self.allowed_origins.iter().any(|p| p.0.is_match(origin))
    }

    /// Tells whether answers get neither CORS headers nor HSTS.
    pub fn is_silent(&self) -> bool {
        self.allowed_origins.is_empty() && self.strict_transport_security.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_matched_as_patterns() {
        let pattern = OriginPattern::parse(r"^https://ui\.example\.test(:|$)").unwrap();
        let browsers = Browsers {
            allowed_origins: vec![pattern],
            strict_transport_security: None,
        };
        for (origin, allowed) in [
            ("https://ui.example.test", true),
            ("https://ui.example.test:8443", true),
            ("https://ui.example.test.evil.test", false),
            ("http://ui.example.test", false),
            ("null", false),
            ("", false),
        ] {
            let origin = HeaderValue::from_static(origin);
            assert_eq!(browsers.allows(&origin), allowed, "{origin:?}");
        }
        assert!(!browsers.allows(&HeaderValue::from_bytes(b"https://\xff").unwrap()));
        let port = |digits| format!("https://ui.example.test:{}", "1".repeat(digits));
        let allows = |origin: String| browsers.allows(&HeaderValue::try_from(origin).unwrap());
        assert!(allows(port(1_000)) && !allows(port(1_001)));
    }
}
