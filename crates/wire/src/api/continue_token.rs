//! Kubernetes' own continue token: base64url of
//! `{"v":"meta.k8s.io/v1","rv":N,"start":"/namespace/name\u0000"}`
//! (k8s.io/apiserver `storage/continue.go`). The format is not changed, since
//! any server that holds the state may answer the next page.
//!
//! kube-apiserver writes the start with a slash when its watch cache answered
//! and without one when etcd did. Both forms are read, and the form with the
//! slash is written.

use std::fmt;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

const VERSION: &str = "meta.k8s.io/v1";

/// The longest token that is read. A key holds a namespace and a name, 63 and 253
/// bytes for nearly all kinds. The tokens of the few kinds with longer names are
/// left to upstream.
const MAX_TOKEN_BYTES: usize = 8 << 10;

/// The position at which a list continues, and the version of its state.
///
/// ```
/// use kubernetes_wire::api::ContinueToken;
///
/// let token = ContinueToken::after(7, "shop/web");
/// let written = token.to_string();
/// assert_eq!(ContinueToken::parse(&written)?, token);
/// # Ok::<(), kubernetes_wire::api::InvalidContinueToken>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    /// The version of the first page. A negative value stands for the newest
    /// version.
    pub resource_version: i64,
    /// The first possible key of the page, relative to the list's scope:
    /// `namespace/name`, or `name` in a list of one namespace.
    pub start: String,
}

/// Why a token is refused. The API server writes this text after `invalid continue
/// token: `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidContinueToken {
    /// The token is not base64url without padding. The number is the position of the
    /// first illegal byte.
    #[error("continue key is not valid: illegal base64 data at input byte {0}")]
    Base64(usize),
    /// The decoded text is not a JSON object. The text is the message of Go's
    /// `encoding/json`.
    #[error("continue key is not valid: {0}")]
    Json(String),
    /// The token has a format of another version, which is this text.
    #[error("continue key is not valid: server does not recognize this encoded version {0}")]
    Version(String),
    #[error(
        "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
    )]
    /// The resourceVersion is 0.
    ResourceVersion,
    /// The start is empty.
    #[error("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")]
    Empty,
    /// The start is not a clean path: it could lead out of the list's scope.
    #[error("continue key is not valid: {0}")]
    Start(String),
    /// The token has more than 8 KiB. kube-apiserver may accept it.
    #[error("continue key is not valid: longer than {MAX_TOKEN_BYTES} bytes")]
    TooLong,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Wire {
    v: String,
    rv: i64,
    start: String,
}

impl ContinueToken {
    /// Makes the token for the page after the object whose key is `last`.
    pub fn after(resource_version: u64, last: &str) -> Self {
        Self {
            resource_version: i64::try_from(resource_version).unwrap_or(i64::MAX),
            start: format!("{last}\0"),
        }
    }

    /// Returns the same position in the newest state. A 410 contains such a
    /// token.
    pub fn at_newest(self) -> Self {
        Self {
            resource_version: -1,
            ..self
        }
    }

    /// Reads a token that a client sends as the parameter `continue`.
    pub fn parse(token: &str) -> Result<Self, InvalidContinueToken> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(InvalidContinueToken::TooLong);
        }
        let json = URL_SAFE_NO_PAD.decode(token).map_err(illegal_byte)?;
        let wire: Wire = serde_json::from_slice(&json)
            .map_err(|error| InvalidContinueToken::Json(go_json_error(&json, &error)))?;
        if wire.v != VERSION {
            return Err(InvalidContinueToken::Version(wire.v));
        }
        if wire.rv == 0 {
            return Err(InvalidContinueToken::ResourceVersion);
        }
        if wire.start.is_empty() {
            return Err(InvalidContinueToken::Empty);
        }
        let start = wire.start.strip_prefix('/').unwrap_or(&wire.start);
        // Go's `path.Clean` leaves such a path unchanged.
        let clean = start
            .split('/')
            .all(|part| !matches!(part, "" | "." | ".."));
        if !clean && !start.is_empty() {
            return Err(InvalidContinueToken::Start(wire.start));
        }
        Ok(Self {
            resource_version: wire.rv,
            start: start.to_owned(),
        })
    }
}

impl fmt::Display for ContinueToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wire = Wire {
            v: VERSION.to_owned(),
            rv: self.resource_version,
            start: format!("/{}", self.start),
        };
        f.write_str(&URL_SAFE_NO_PAD.encode(super::go_json::to_vec(&wire)))
    }
}

fn illegal_byte(error: base64::DecodeError) -> InvalidContinueToken {
    use base64::DecodeError::{InvalidByte, InvalidLastSymbol};
    InvalidContinueToken::Base64(match error {
        InvalidByte(at, _) | InvalidLastSymbol(at, ..) => at,
        _ => 0,
    })
}

/// Returns Go's error message. It names the first byte that cannot begin a value.
fn go_json_error(json: &[u8], error: &serde_json::Error) -> String {
    match String::from_utf8_lossy(json).chars().next() {
        Some(first) if error.is_syntax() => {
            format!("invalid character '{first}' looking for beginning of value")
        }
        _ => "unexpected end of JSON input".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(json: &str) -> String {
        URL_SAFE_NO_PAD.encode(json)
    }

    #[test]
    fn tokens_are_kubernetes_own() {
        // A token from a real server.
        let real = "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Mjc0LCJzdGFydCI6Ii9rdWJlLW5vZGUtbGVhc2VcdTAwMDAifQ";
        let token = ContinueToken::after(274, "kube-node-lease");
        assert_eq!(token.to_string(), real);
        assert_eq!(ContinueToken::parse(real), Ok(token.clone()));
        // A token of a page that etcd answered.
        let bare = r#"{"v":"meta.k8s.io/v1","rv":274,"start":"kube-node-lease\u0000"}"#;
        assert_eq!(ContinueToken::parse(&encoded(bare)), Ok(token.clone()));
        assert_eq!(token.at_newest().resource_version, -1);
    }

    #[test]
    fn what_is_wrong_is_said_as_the_api_server_says_it() {
        let start = |start: &str| format!(r#"{{"v":"meta.k8s.io/v1","rv":1,"start":"{start}"}}"#);
        for (json, expected) in [
            ("i", "invalid character 'i' looking for beginning of value"),
            (
                r#"{"v":"v2"}"#,
                "server does not recognize this encoded version v2",
            ),
            (
                r#"{"v":"meta.k8s.io/v1","start":"a"}"#,
                "incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                &start(""),
                "encoded start key empty (version meta.k8s.io/v1)",
            ),
            (&start("../secrets/x"), "../secrets/x"),
            (&start("a//b"), "a//b"),
            (&start("//"), "//"),
            (&start("a/./b"), "a/./b"),
            (&start("a/"), "a/"),
        ] {
            let error = ContinueToken::parse(&encoded(json))
                .unwrap_err()
                .to_string();
            assert_eq!(error, format!("continue key is not valid: {expected}"));
        }
        assert_eq!(
            ContinueToken::parse("a!").unwrap_err(),
            InvalidContinueToken::Base64(1)
        );
        let long = ContinueToken::after(1, &"x".repeat(MAX_TOKEN_BYTES)).to_string();
        assert_eq!(
            ContinueToken::parse(&long),
            Err(InvalidContinueToken::TooLong)
        );
        assert_eq!(
            ContinueToken::parse(&encoded(&start("/"))).unwrap().start,
            ""
        );
    }

    proptest! {
        #[test]
        fn tokens_survive_the_wire(version in 1u64.., key in "[a-z<>&\u{2028}.:-]{1,20}(/[a-z]{1,9})?") {
            prop_assume!(key.split('/').all(|part| part != "." && part != ".."));
            let token = ContinueToken::after(version, &key);
            prop_assert_eq!(ContinueToken::parse(&token.to_string()), Ok(token));
        }

        #[test]
        fn no_input_panics(text in ".*", json in "\\PC*") {
            let _ = ContinueToken::parse(&text);
            let _ = ContinueToken::parse(&encoded(&json));
        }
    }
}
