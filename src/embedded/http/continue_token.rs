//! Kubernetes' own continue token: base64url of
//! `{"v":"meta.k8s.io/v1","rv":N,"start":"/namespace/name\u0000"}`
//! (apiserver `storage/continue.go`).

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

const VERSION: &str = "meta.k8s.io/v1";

#[derive(Debug, PartialEq, Eq)]
pub struct Token {
    /// Negative: whatever is newest.
    pub revision: i64,
    /// The first key that may be in the page, relative to the list's prefix.
    pub start: String,
}

#[derive(Deserialize, Serialize)]
#[serde(default)]
#[derive(Default)]
struct Wire {
    v: String,
    rv: i64,
    start: String,
}

/// The token for the page after `last`, a key relative to the list's prefix.
pub fn encode(revision: i64, last: &str) -> String {
    from_start(revision, &format!("/{last}\0"))
}

/// The same position at another revision.
pub fn restart(token: &Token) -> String {
    from_start(-1, &format!("/{}", token.start))
}

fn from_start(rv: i64, start: &str) -> String {
    let wire = Wire {
        v: VERSION.to_owned(),
        rv,
        start: start.to_owned(),
    };
    URL_SAFE_NO_PAD.encode(crate::api::go_json::to_vec(&wire))
}

/// The error follows `invalid continue token: `.
pub fn decode(token: &str) -> Result<Token, String> {
    let not_valid = |why: &str| format!("continue key is not valid: {why}");
    let bytes = URL_SAFE_NO_PAD
        .decode(token)
        .map_err(|e| not_valid(&base64_error(&e)))?;
    let wire: Wire =
        serde_json::from_slice(&bytes).map_err(|e| not_valid(&json_error(&bytes, &e)))?;
    match wire.v.as_str() {
        VERSION => {}
        other => {
            return Err(not_valid(&format!(
                "server does not recognize this encoded version {other}"
            )));
        }
    }
    if wire.rv == 0 {
        return Err(not_valid(
            "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ));
    }
    if wire.start.is_empty() {
        return Err(not_valid(
            "encoded start key empty (version meta.k8s.io/v1)",
        ));
    }
    let start = wire.start.strip_prefix('/').unwrap_or(&wire.start);
    let clean = start
        .split('/')
        .all(|part| !matches!(part, "" | "." | ".."));
    if !clean {
        return Err(not_valid(&wire.start));
    }
    Ok(Token {
        revision: wire.rv,
        start: start.to_owned(),
    })
}

fn base64_error(error: &base64::DecodeError) -> String {
    use base64::DecodeError::{InvalidByte, InvalidLastSymbol};
    let at = match error {
        InvalidByte(at, _) | InvalidLastSymbol(at, ..) => *at,
        _ => 0,
    };
    format!("illegal base64 data at input byte {at}")
}

/// Go names the first byte that cannot begin a value.
fn json_error(bytes: &[u8], error: &serde_json::Error) -> String {
    match String::from_utf8_lossy(bytes).chars().next() {
        Some(first) if error.is_syntax() => {
            format!("invalid character '{first}' looking for beginning of value")
        }
        _ => "unexpected end of JSON input".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_kubernetes_own() {
        // As a real server gave it.
        let real = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Mjc0LCJzdGFydCI6Ii9rdWJlLW5vZGUtbGVhc2VcdTAwMDAifQ";
        assert_eq!(encode(274, "kube-node-lease"), real);
        assert_eq!(
            decode(real),
            Ok(Token {
                revision: 274,
                start: "kube-node-lease\0".into()
            })
        );
        assert_eq!(
            decode("abc").unwrap_err(),
            "continue key is not valid: invalid character 'i' looking for beginning of value"
        );
    }
}
