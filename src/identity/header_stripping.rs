//! Removes the headers of a caller that must never reach the servers behind
//! apifront.

use std::borrow::Cow;
use std::sync::LazyLock;

use apifront_upstream::is_hop_by_hop;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderMap, HeaderName, HeaderValue};
use kubernetes_wire::request::{ConnectionOptions, is_framing};

use crate::authn::RequestHeaderNames;
use crate::authn::bearer_token::{self, TOKEN_PROTOCOL_PREFIX};

/// The header of an upgrade to HTTP/2, which belongs to one connection (RFC 7540,
/// 3.2.1).
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// The header with which a caller asks for a view. Only the first apifront acts on
/// it.
pub const VIEW: HeaderName = HeaderName::from_static("x-apifront-view");

/// Returns the changes that a request needs before it is forwarded. It loses
/// - every header that claims an identity: `Authorization`, `Impersonate-*`,
///   the standard and the configured front-proxy headers, and bearer tokens
///   among WebSocket protocols;
/// - every header that `Connection` names, and the other hop-by-hop ones;
/// - the header that asks this process for a view.
///
/// The fields of an upgrade are added elsewhere. Each item is a header to remove and
/// the value that replaces it. The changes must be made after authentication and
/// before [`super::apply`].
pub fn changes(
    headers: &HeaderMap,
    connection: &ConnectionOptions,
    configured: Option<&RequestHeaderNames>,
) -> Vec<(HeaderName, Option<HeaderValue>)> {
    let doomed = |name: &HeaderName| {
        if is_framing(name) {
            return false;
        }
        is_hop_by_hop(name)
            || connection.names(name)
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
    if !doomed(&SEC_WEBSOCKET_PROTOCOL) {
        changes.extend(without_tokens(headers).map(|v| (SEC_WEBSOCKET_PROTOCOL, v)));
    }
    changes
}

/// Tells whether a header claims an identity. Underscores count as hyphens, because
/// some servers behind a gateway cannot tell `X_Remote_User` from `X-Remote-User`.
fn claims_identity(name: &str) -> bool {
    static STANDARD: LazyLock<RequestHeaderNames> = LazyLock::new(RequestHeaderNames::default);
    let name = match name.contains('_') {
        true => Cow::Owned(name.replace('_', "-")),
        false => Cow::Borrowed(name),
    };
    *name == *AUTHORIZATION.as_str() || name.starts_with("impersonate-") || STANDARD.contains(&name)
}

/// Returns the WebSocket protocols without bearer tokens, if there are any. A
/// credential must not be passed on, and a backend must not echo it.
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
