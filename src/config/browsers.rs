//! The fields of `serving` about browsers: CORS and HSTS. They are kube-apiserver's
//! flags `--cors-allowed-origins` and `--strict-transport-security-directives`.

use http::HeaderValue;

use super::check::Check;
use super::raw;
use crate::browsers::{Browsers, OriginPattern};

/// Checks the fields. Without authentication (`front` is false), no page of
/// another origin may read anything.
pub(super) fn check(raw: &raw::Serving, front: bool, check: &mut Check) -> Browsers {
    let origins = raw.cors_allowed_origins.as_deref().unwrap_or_default();
    let allowed_origins = origins
        .iter()
        .enumerate()
        .filter_map(|(at, pattern)| {
            let field = format!("serving.corsAllowedOrigins[{at}]");
            match origin(pattern, front) {
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
    Browsers {
        allowed_origins,
        strict_transport_security: value.filter(|value| !value.is_empty()),
    }
}

fn origin(pattern: &str, front: bool) -> Result<OriginPattern, String> {
    match front {
        true => OriginPattern::parse(pattern),
        false => Err("not in front of callers without authentication".to_owned()),
    }
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
        let mut noted = Check::default();
        let browsers = check(&raw, true, &mut noted);
        let errors = noted.into_errors();
        let fields = errors.into_iter().map(|error| error.field).collect();
        (browsers, fields)
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
        let (told, errors) = browsers(&[r"^https://ui\.example\.test(:|$)"], &[]);
        assert!(errors.is_empty());
        assert!(told.allows(&HeaderValue::from_static("https://ui.example.test")));
        let (silent, _) = browsers(&[], &[]);
        assert!(silent.is_silent());
    }
}
