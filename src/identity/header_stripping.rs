//! Removes the headers of a caller that must never reach the servers behind
//! apifront.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use apifront_upstream::is_hop_by_hop;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HOST, SEC_WEBSOCKET_PROTOCOL, TRANSFER_ENCODING,
    UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::authn::RequestHeaderNames;
use crate::authn::bearer_token::{self, TOKEN_PROTOCOL_PREFIX};

/// Headers that are never removed, even if `Connection` names them: they tell
/// the request's destination and the end of its body. Without them one request
/// could become two. RFC 9110 forbids naming them there.
const FRAMING: [HeaderName; 3] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING];

/// The header of an upgrade to HTTP/2, which belongs to one connection (RFC 7540,
/// 3.2.1).
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// The header by which a caller asks for a view. It is meant for the first
/// apifront alone.
pub const VIEW: HeaderName = HeaderName::from_static("x-apifront-view");

/// Returns the changes that a request needs before it is forwarded. It loses
/// - every header that claims an identity: `Authorization`, `Impersonate-*`,
///   the standard and the configured front-proxy headers, and bearer tokens
///   among WebSocket protocols;
/// - every header that `Connection` names, and the other hop-by-hop ones;
/// - the header that asks this process for a view.
///
/// An upgrade keeps `Upgrade` and gets `Connection: Upgrade`. Only HTTP/1.1 has
/// upgrades (RFC 9110, 7.8): `may_upgrade` tells that this is one. Each item is a
/// header to remove, and the value that replaces it. The changes must be made
/// after authentication and before [`super::apply`].
pub fn changes(
    headers: &HeaderMap,
    configured: Option<&RequestHeaderNames>,
    may_upgrade: bool,
) -> Vec<(HeaderName, Option<HeaderValue>)> {
    let upgrade = may_upgrade && headers.contains_key(UPGRADE) && bearer_token::is_upgrade(headers);
    let named = named_by_connection(headers);
    let doomed = |name: &HeaderName| {
        if FRAMING.contains(name) || *name == UPGRADE || *name == CONNECTION {
            return false;
        }
        is_hop_by_hop(name)
            || named.contains(name)
            || *name == VIEW
            || *name == HTTP2_SETTINGS
            || claims_identity(name.as_str())
            || configured.is_some_and(|names| names.contains(name.as_str()))
    };
    let mut changes: Vec<_> = headers
        .keys()
        .filter(|name| doomed(name))
        .map(|name| (name.clone(), None))
        .collect();
    if upgrade {
        changes.push((CONNECTION, Some(HeaderValue::from_static("Upgrade"))));
    } else {
        for name in [CONNECTION, UPGRADE] {
            if headers.contains_key(&name) {
                changes.push((name, None));
            }
        }
    }
    if !doomed(&SEC_WEBSOCKET_PROTOCOL) {
        changes.extend(without_tokens(headers).map(|v| (SEC_WEBSOCKET_PROTOCOL, v)));
    }
    changes
}

/// Returns the headers that are there and that `Connection` names. It may name as
/// many as a head has room for.
fn named_by_connection(headers: &HeaderMap) -> HashSet<HeaderName> {
    headers
        .get_all(CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|b| *b == b','))
        .filter_map(|name| std::str::from_utf8(name.trim_ascii()).ok())
        .filter(|name| headers.contains_key(*name))
        .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
        .collect()
}

/// Tells whether a header claims an identity. Underscores count as hyphens,
/// because some servers behind a gateway cannot distinguish `X_Remote_User`
/// from `X-Remote-User`.
fn claims_identity(name: &str) -> bool {
    static STANDARD: LazyLock<RequestHeaderNames> = LazyLock::new(RequestHeaderNames::default);
    let name = match name.contains('_') {
        true => Cow::Owned(name.replace('_', "-")),
        false => Cow::Borrowed(name),
    };
    *name == *AUTHORIZATION.as_str() || name.starts_with("impersonate-") || STANDARD.contains(&name)
}

/// Returns the WebSocket protocols without bearer tokens, if there are any: a
/// credential must not travel on, nor be echoed by a backend.
fn without_tokens(headers: &HeaderMap) -> Option<Option<HeaderValue>> {
    if !bearer_token::protocols(headers).any(|p| p.starts_with(TOKEN_PROTOCOL_PREFIX)) {
        return None;
    }
    let others: Vec<_> = bearer_token::protocols(headers)
        .filter(|p| !p.starts_with(TOKEN_PROTOCOL_PREFIX))
        .collect();
    let joined = HeaderValue::from_str(&others.join(", ")).ok();
    Some(joined.filter(|value| !value.is_empty()))
}
