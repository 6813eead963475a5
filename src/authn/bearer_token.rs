//! Finds the bearer token of a request.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use kubernetes_wire::request::ConnectionOptions;

/// The prefix of a WebSocket subprotocol that holds a token. The API server accepts
/// tokens in this form because browsers cannot set headers on a WebSocket.
pub const TOKEN_PROTOCOL_PREFIX: &str = "base64url.bearer.authorization.k8s.io.";

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("several bearer tokens in Sec-WebSocket-Protocol")]
    Several,
    #[error("the bearer token in Sec-WebSocket-Protocol is not base64url text")]
    Encoding,
    /// The server has to choose a protocol, and must not echo the token.
    #[error("a bearer token is the only protocol in Sec-WebSocket-Protocol")]
    NoOtherProtocol,
}

/// Returns the token of `Authorization: Bearer <token>`. As in the API server,
/// another scheme or a malformed value counts as no token.
pub fn from_authorization(headers: &HeaderMap) -> Option<&str> {
    let value = std::str::from_utf8(headers.get(AUTHORIZATION)?.as_bytes()).ok()?;
    let mut parts = value.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

pub fn from_websocket_protocol(
    headers: &HeaderMap,
    connection: &ConnectionOptions,
) -> Result<Option<String>, TokenError> {
    if !connection.is_websocket() {
        return Ok(None);
    }
    let mut token = None;
    let mut others = false;
    for protocol in protocols(headers) {
        let Some(encoded) = protocol.strip_prefix(TOKEN_PROTOCOL_PREFIX) else {
            others = true;
            continue;
        };
        if token.is_some() {
            return Err(TokenError::Several);
        }
        let bytes = URL_SAFE_NO_PAD
            .decode(encoded)
            .map_err(|_| TokenError::Encoding)?;
        token = Some(String::from_utf8(bytes).map_err(|_| TokenError::Encoding)?);
    }
    let token = token.filter(|t| !t.is_empty());
    if token.is_some() && !others {
        return Err(TokenError::NoOtherProtocol);
    }
    Ok(token)
}

/// Returns the subprotocols that a request offers, in order.
pub fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|value| std::str::from_utf8(value.as_bytes()).ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use http::Version;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(
                http::HeaderName::from_bytes(name.as_bytes()).unwrap(),
                value.parse().unwrap(),
            );
        }
        map
    }

    #[test]
    fn authorization_is_read_as_go_does() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bEaReR abc", Some("abc")),
            ("  Bearer abc  ", Some("abc")),
            ("Bearer abc def", Some("abc")),
            ("Bearer  abc", None),
            ("Bearer", None),
            ("Bearer ", None),
            ("Basic abc", None),
            ("abc", None),
            ("", None),
        ] {
            let headers = headers(&[("Authorization", value)]);
            assert_eq!(from_authorization(&headers), token, "{value:?}");
        }
        let twice = headers(&[("authorization", "Bearer a"), ("AUTHORIZATION", "Bearer b")]);
        assert_eq!(from_authorization(&twice), Some("a"));
    }

    #[test]
    fn websocket_tokens_need_another_protocol() {
        let token = format!("{TOKEN_PROTOCOL_PREFIX}{}", URL_SAFE_NO_PAD.encode("abc"));
        let both = format!("{token}, v5.channel.k8s.io");
        let twice = format!("{token},{token},x");
        let bad = format!("{TOKEN_PROTOCOL_PREFIX}!!,x");
        for (protocol, expected) in [
            (both.as_str(), Ok(Some("abc".to_owned()))),
            (token.as_str(), Err(TokenError::NoOtherProtocol)),
            (twice.as_str(), Err(TokenError::Several)),
            (bad.as_str(), Err(TokenError::Encoding)),
            ("v5.channel.k8s.io", Ok(None)),
        ] {
            let mut pairs = vec![
                ("Sec-WebSocket-Protocol", protocol),
                ("Upgrade", "WebSocket"),
            ];
            let token = |pairs: &[(&str, &str)]| {
                let headers = headers(pairs);
                from_websocket_protocol(
                    &headers,
                    &ConnectionOptions::read(&headers, Version::HTTP_11),
                )
            };
            // One of the two headers alone is no upgrade.
            assert_eq!(token(&pairs), Ok(None));
            pairs.push(("Connection", "keep-alive, Upgrade"));
            assert_eq!(token(&pairs), expected, "{protocol}");
        }
    }
}
