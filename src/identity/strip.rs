//! Which headers of a caller never reach the servers behind.

use std::collections::HashSet;

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::authn::RequestHeaderNames;
use crate::authn::bearer::{self, TOKEN_PROTOCOL_PREFIX};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Hop-by-hop, whether `Connection` names them or not (RFC 9110 7.6.1).
/// `Connection` and `Upgrade` have rules of their own.
const HOP_BY_HOP: [HeaderName; 6] = [
    KEEP_ALIVE,
    PROXY_CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
];

/// Never removed, even if `Connection` names them: they say where a request
/// goes and where its body ends, and without them one request could become
/// two. RFC 9110 forbids naming them there.
const FRAMING: [HeaderName; 3] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING];

/// Removes from a request to be forwarded
/// - everything by which an identity is claimed: `Authorization`,
///   `Impersonate-*`, the standard and the configured front-proxy headers,
///   bearer tokens among WebSocket protocols;
/// - every header that `Connection` names, and the other hop-by-hop ones.
///
/// An upgrade keeps `Upgrade` and gets `Connection: Upgrade`. Call it after
/// authentication and before [`super::apply`].
pub fn strip(headers: &mut HeaderMap, configured: Option<&RequestHeaderNames>) {
    let upgrade = bearer::is_upgrade(headers) && headers.contains_key(UPGRADE);
    let standard = RequestHeaderNames::default();
    let named = named_by_connection(headers);
    let doomed: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            if FRAMING.contains(name) || **name == UPGRADE {
                return false;
            }
            HOP_BY_HOP.contains(name)
                || named.contains(name.as_str())
                || claims_identity(name.as_str(), &standard)
                || configured.is_some_and(|names| names.contains(name.as_str()))
        })
        .cloned()
        .collect();
    for name in doomed {
        headers.remove(name);
    }
    headers.remove(CONNECTION);
    if upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    } else {
        headers.remove(UPGRADE);
    }
    strip_token_protocols(headers);
}

fn named_by_connection(headers: &HeaderMap) -> HashSet<String> {
    headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|b| *b == b','))
        .map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase())
        .collect()
}

/// Underscores count as hyphens: some servers behind a gateway cannot tell
/// `X_Remote_User` from `X-Remote-User`.
fn claims_identity(name: &str, standard: &RequestHeaderNames) -> bool {
    let name = name.replace('_', "-");
    name == AUTHORIZATION.as_str() || name.starts_with("impersonate-") || standard.contains(&name)
}

/// A credential must not travel on, nor be echoed by a backend.
fn strip_token_protocols(headers: &mut HeaderMap) {
    let has_token = bearer::protocols(headers).any(|p| p.starts_with(TOKEN_PROTOCOL_PREFIX));
    if !has_token {
        return;
    }
    let others: Vec<_> = bearer::protocols(headers)
        .filter(|p| !p.starts_with(TOKEN_PROTOCOL_PREFIX))
        .collect();
    let joined = HeaderValue::from_str(&others.join(", "));
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Ok(value) = joined
        && !value.is_empty()
    {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, value);
    }
}
