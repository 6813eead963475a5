//! Reads the expiry in a token.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

/// The most bytes of claims that are decoded. Real tokens are much shorter.
const MAX_CLAIMS_BYTES: usize = 64 << 10;

#[derive(Deserialize)]
struct Claims {
    exp: f64,
}

/// Returns the `exp` claim of a JWT (RFC 7519, 4.1.4), or `None` if there is none or
/// the token is no JWT. The signature is not checked: the claim can only shorten the
/// time for which the API server's answer is used, so a false one gains nothing.
pub(super) fn expiry(token: &str) -> Option<SystemTime> {
    let mut parts = token.split('.');
    let (_header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || claims.len() > MAX_CLAIMS_BYTES {
        return None;
    }
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    let since = Duration::try_from_secs_f64(claims.exp.max(0.0)).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_read_and_nothing_else_believed() {
        let jwt = |claims: &str| format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims));
        let seconds = |token: &str| {
            let expiry = expiry(token)?;
            Some(
                expiry
                    .duration_since(SystemTime::UNIX_EPOCH)
                    .unwrap()
                    .as_secs(),
            )
        };
        for (claims, expected) in [
            (r#"{"exp":1700000000,"sub":"jane"}"#, Some(1_700_000_000)),
            (r#"{"exp":1700000000.5}"#, Some(1_700_000_000)),
            // The token has expired, so it is never remembered.
            (r#"{"exp":-1}"#, Some(0)),
            (r#"{"exp":1e300}"#, None),
            (r#"{"exp":"soon"}"#, None),
            (r#"{"sub":"jane"}"#, None),
            ("[", None),
        ] {
            assert_eq!(seconds(&jwt(claims)), expected, "{claims}");
        }
        let long = format!(r#"{{"exp":1,"x":"{}"}}"#, "x".repeat(MAX_CLAIMS_BYTES));
        let deep = format!(r#"{{"x":{}"#, "[".repeat(10_000));
        for token in [
            "",
            "opaque",
            "a.b",
            "a.b.c.d",
            "a.!.c",
            &jwt(&long),
            &jwt(&deep),
        ] {
            assert_eq!(seconds(token), None);
        }
    }
}
