//! The head of a forwarded request, as the API server gets it.

use apifront_upstream::cdn_loop::{self, CDN_LOOP};
use apifront_upstream::{field_size, head_size};
use http::header::{CONTENT_LENGTH, EXPECT, HOST, TRANSFER_ENCODING};
use http::{HeaderValue, Request};
use kubernetes_wire::api::UserInfo;
use kubernetes_wire::request::Upgrade;
use pingora_core::{Error, ErrorType, Result};
use pingora_http::RequestHeader;

use super::aggregator_request;
use crate::audit::Trail;
use crate::identity;
use crate::server::exchange::{Exchange, Failure};
use crate::server::stage::AUDIT_ID;
use crate::server::stage::forwarded::Forward;
use crate::spans::RequestSpan;

/// kube-apiserver's audit log takes its source addresses from this header.
const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// Replaces the caller's credentials by headers that tell upstream the caller's
/// identity.
pub(in crate::server) async fn rewrite(
    request: &mut RequestHeader,
    forward: &Forward,
    trail: Option<&mut Trail>,
    mut span: Option<&mut RequestSpan>,
) -> Result<()> {
    let Some(endpoint) = forward.tried.last() else {
        return Error::e_explain(ErrorType::InternalError, "no API server chosen");
    };
    let own = endpoint
        .forward
        .headers
        .headers(forward.identity())
        .await
        .map_err(|error| {
            Error::because(
                ErrorType::InternalError,
                "no credentials for upstream",
                error,
            )
        })?;
    if let Some(trail) = trail {
        trail.request_begins();
    }
    // The client has already been told to send its body.
    request.remove_header(&EXPECT);
    aggregator_request::rewrite(request, forward)?;
    introduce(request, forward, span.as_deref_mut())?;
    if let Some(span) = span {
        span.asked(&endpoint.name);
    }
    for (name, value) in &own {
        request.append_header(name, value)?;
    }
    request.insert_header(HOST, endpoint.name.as_str())
}

/// Makes the head of a request that does not go through pingora.
pub(super) fn without_pingora(
    exchange: &Exchange<'_>,
    has_body: bool,
    forward: &Forward,
    span: Option<&mut RequestSpan>,
) -> Result<Request<()>, Failure> {
    let mut request = exchange.spelled_head().clone();
    // The client has been told to send its body.
    request.remove_header(&EXPECT);
    aggregator_request::rewrite(&mut request, forward)?;
    introduce(&mut request, forward, span)?;
    let path = request.uri.path_and_query().map_or("/", |p| p.as_str());
    let mut upstream = Request::builder()
        .method(request.method.clone())
        .uri(path)
        .body(())
        .map_err(|e| Error::because(ErrorType::InvalidHTTPHeader, "request line", e))?;
    let headers = upstream.headers_mut();
    *headers = request.as_owned_parts().headers;
    headers.remove(TRANSFER_ENCODING);
    if has_body && !headers.contains_key(CONTENT_LENGTH) {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
    Ok(upstream)
}

/// Removes the headers in which the caller claims an identity. Adds those that tell
/// the caller's identity and address, the request and its trace, and the apifronts
/// on the way. Every request to upstream passes here, whether pingora or `stream.rs`
/// sends it.
fn introduce(
    request: &mut RequestHeader,
    forward: &Forward,
    span: Option<&mut RequestSpan>,
) -> Result<()> {
    let front_proxy = forward.generation().gate.front_proxy();
    let changes = identity::changes(&request.headers, forward.connection(), front_proxy);
    for (name, value) in changes {
        request.remove_header(&name);
        if let Some(value) = value {
            request.append_header(name, value)?;
        }
    }
    let upgrade = forward.upgrade().into_iter();
    for (name, value) in upgrade.flat_map(Upgrade::fields) {
        request.append_header(name, value)?;
    }
    for (name, value) in forward.identity() {
        request.append_header(name, value)?;
    }
    // Without a span, the headers of the caller's trace stay as they are.
    let trace = span.map(|span| span.ask(&request.method));
    for (name, value) in trace.into_iter().flatten() {
        request.remove_header(&name);
        if let Some(value) = value {
            request.insert_header(name, value)?;
        }
    }
    request.insert_header(AUDIT_ID, forward.audit_id())?;
    request.append_header(CDN_LOOP, cdn_loop::entry())?;
    if let Some(address) = forward.client() {
        let mut way: Vec<&str> = Vec::new();
        let before = request.headers.get_all(X_FORWARDED_FOR).iter();
        way.extend(before.filter_map(|value| value.to_str().ok()));
        let address = address.to_string();
        way.push(&address);
        // The header is a single line, as Go's proxies write it.
        let way = way.join(", ");
        request.insert_header(X_FORWARDED_FOR, way)?;
    }
    Ok(())
}

/// Returns the approximate size of the head that will be sent, including fields that
/// may name the caller.
pub(super) fn sent_bytes(exchange: &Exchange<'_>, user: Option<&UserInfo>) -> usize {
    const PREFIX_BYTES: usize = "x-remote-extra-".len();
    let named = |user: &UserInfo| {
        let groups = user
            .groups
            .iter()
            .map(|group| field_size(PREFIX_BYTES, group.len()));
        let extra = user.extra.iter().flat_map(|(key, values)| {
            // Every octet of a key may become an escape.
            let name = key.len().saturating_mul(3).saturating_add(PREFIX_BYTES);
            values
                .iter()
                .map(move |value| field_size(name, value.len()))
        });
        groups.chain(extra).fold(0, usize::saturating_add)
    };
    let target = exchange.target().len();
    head_size(target, &exchange.request().headers).saturating_add(user.map_or(0, named))
}
