//! CORS (which other origins' pages may read answers) and HSTS (RFC 6797: browsers
//! use TLS alone). Fields and rules are those of kube-apiserver's flags
//! `--cors-allowed-origins` and `--strict-transport-security-directives`.

use http::HeaderValue;
use regex::{Regex, RegexBuilder};

use super::check::Check;
use super::raw;

/// A longer origin matches no pattern. A host name has 253 bytes at most.
const ORIGIN_BYTES: usize = 1 << 10;

/// The most bytes that a compiled pattern takes.
const PATTERN_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Browsers {
    allowed_origins: Vec<Pattern>,
    /// The value of `Strict-Transport-Security`.
    pub strict_transport_security: Option<HeaderValue>,
}

#[derive(Clone, Debug)]
struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
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

    /// Checks the fields. Without authentication (`front` is false), no page of
    /// another origin may read anything.
    pub(super) fn check(raw: &raw::Serving, front: bool, check: &mut Check) -> Self {
        let origins = raw.cors_allowed_origins.as_deref().unwrap_or_default();
        let allowed_origins = origins
            .iter()
            .enumerate()
            .filter_map(|(at, pattern)| {
                let field = format!("serving.corsAllowedOrigins[{at}]");
                match compiled(pattern, front) {
                    Ok(pattern) => Some(pattern),
                    Err(why) => {
                        check.error(&field, pattern, &why);
                        None
                    }
                }
            })
            .collect();
        let directives = raw.strict_transport_security_directives.as_deref();
        let directives = directives.unwrap_or_default();
        for (at, directive) in directives.iter().enumerate() {
            if !is_directive(directive) {
                let field = format!("serving.strictTransportSecurityDirectives[{at}]");
                let why = "must be max-age=SECONDS, includeSubDomains or preload";
                check.error(&field, directive, why);
            }
        }
        let value = HeaderValue::try_from(directives.join("; ")).ok();
        Self {
            allowed_origins,
            strict_transport_security: value.filter(|value| !value.is_empty()),
        }
    }
}

/// Compiles a pattern, which must mark where an origin's host begins and ends:
/// `example.com` alone would also allow `https://example.com.evil.test`
/// (CVE-2022-1996).
fn compiled(pattern: &str, front: bool) -> Result<Pattern, String> {
    if !front {
        return Err("not in front of callers without authentication".to_owned());
    }
    let begins = ["^", "//"].iter().any(|mark| pattern.contains(mark));
    let ends = ["$", ":"].iter().any(|mark| pattern.contains(mark));
    if !begins || !ends {
        return Err("must say where the host begins (^ or //) and ends ($ or :)".to_owned());
    }
    let compiled = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build();
    let compiled = compiled.map_err(|error| format!("is no regular expression: {error}"));
    Ok(Pattern(compiled?))
}

fn is_directive(directive: &str) -> bool {
    let seconds = directive.strip_prefix("max-age=");
    let is_age = |seconds: &str| !seconds.is_empty() && seconds.bytes().all(|b| b.is_ascii_digit());
    matches!(directive, "includeSubDomains" | "preload") || seconds.is_some_and(is_age)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn browsers(origins: &[&str], directives: &[&str]) -> (Browsers, Vec<String>) {
        let texts = |texts: &[&str]| Some(texts.iter().map(|text| text.to_string()).collect());
        let raw = raw::Serving {
            cors_allowed_origins: texts(origins),
            strict_transport_security_directives: texts(directives),
            ..raw::Serving::default()
        };
        let mut check = Check::default();
        let browsers = Browsers::check(&raw, true, &mut check);
        let errors = check.into_errors();
        let fields = errors.into_iter().map(|error| error.field).collect();
        (browsers, fields)
    }

    #[test]
    fn origins_are_matched_as_patterns() {
        let (browsers, errors) = browsers(&[r"^https://ui\.example\.test(:|$)"], &[]);
        assert!(errors.is_empty());
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

    #[test]
    fn patterns_without_ends_and_unknown_directives_are_errors() {
        let origins = ["//a:", "example.com", "^(", "^a"];
        let directives = [
            "max-age=60",
            "max-age=",
            "max-age=x",
            "preload",
            "other",
            "",
        ];
        let (_, errors) = browsers(&origins, &directives);
        let expected = [
            "serving.corsAllowedOrigins[1]",
            "serving.corsAllowedOrigins[2]",
            "serving.corsAllowedOrigins[3]",
            "serving.strictTransportSecurityDirectives[1]",
            "serving.strictTransportSecurityDirectives[2]",
            "serving.strictTransportSecurityDirectives[4]",
            "serving.strictTransportSecurityDirectives[5]",
        ];
        assert_eq!(errors, expected);
        let (silent, _) = browsers(&[], &[]);
        assert!(silent.is_silent());
    }
}
