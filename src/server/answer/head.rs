//! The head of an answer that is made here.

use http::header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode, Version};
use pingora_core::Result;
use pingora_http::{RequestHeader, ResponseHeader};

use super::respond::{CACHE_PART, NOT_CACHED, debug_value};
use crate::server::stage::context::{CacheResult, RequestContext};
use crate::server::stage::{AUDIT_ID, flow_control};

/// The most headers that are added to an answer's own. These are the headers of
/// every answer, twice for a backend's answer, the Date, and the part that the cache
/// had.
pub(super) const ADDED: usize = 12;

/// Adds the headers that kube-apiserver has on every answer.
pub(super) fn add_common(headers: &mut HeaderMap, request: &RequestHeader, ctx: &RequestContext) {
    let class = ctx.classification.as_ref();
    let not_cached = HeaderValue::from_static(NOT_CACHED);
    let audit_id = ctx.audit_id();
    headers.insert(AUDIT_ID, audit_id.clone());
    flow_control::add(headers, class);
    if !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, not_cached.clone());
    }
    if ctx.is_routed() && matches!(ctx.reply.cache, CacheResult::Hit(_)) {
        // An aggregator would also add its own headers: see aggregator_headers.rs.
        headers.append(AUDIT_ID, audit_id);
        headers.append(CACHE_CONTROL, not_cached);
        if ctx.is_of_classifying_backend() {
            flow_control::add(headers, class);
        }
    }
    for (name, value) in ctx.for_browsers.iter().flat_map(|own| own.iter()) {
        headers.insert(name, value.clone());
    }
    if let Some(value) = debug_value(request, ctx.reply.cache) {
        headers.insert(CACHE_PART, value);
    }
}

/// Makes the head in the form of the client's protocol. HTTP/2 has lower-case names.
/// In HTTP/1.1 they are written as Go's server writes them.
pub(super) fn of(
    request: &RequestHeader,
    status: StatusCode,
    headers: HeaderMap,
) -> Result<ResponseHeader> {
    if request.version == Version::HTTP_2 {
        let (mut parts, ()) = Response::new(()).into_parts();
        parts.status = status;
        parts.headers = headers;
        return Ok(parts.into());
    }
    let mut head = ResponseHeader::build(status, Some(headers.len().saturating_add(1)))?;
    for (name, value) in &headers {
        head.append_header(written_by_go(name), value)?;
    }
    Ok(head)
}

/// Returns a name with each of its words capitalized.
pub(super) fn written_by_go(name: &HeaderName) -> String {
    let mut begins = true;
    let letters = name.as_str().chars().map(|letter| {
        let written = match begins {
            true => letter.to_ascii_uppercase(),
            false => letter,
        };
        begins = letter == '-';
        written
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use http::Method;
    use http::header::{CONTENT_TYPE, WARNING, X_CONTENT_TYPE_OPTIONS};

    use super::*;

    #[test]
    fn http_1_has_the_names_as_go_writes_them() {
        let mut headers = HeaderMap::new();
        for name in [CONTENT_TYPE, AUDIT_ID, WARNING, X_CONTENT_TYPE_OPTIONS] {
            headers.append(name, HeaderValue::from_static("v"));
        }
        headers.append(WARNING, HeaderValue::from_static("w"));
        let mut request = RequestHeader::build(Method::GET, b"/", None).unwrap();
        let wire = |request: &RequestHeader| {
            let head = of(request, StatusCode::OK, headers.clone()).unwrap();
            assert_eq!((head.status, &head.headers), (StatusCode::OK, &headers));
            let mut wire = Vec::new();
            head.header_to_h1_wire(&mut wire);
            String::from_utf8(wire).unwrap()
        };
        assert_eq!(
            wire(&request),
            "Content-Type: v\r\nAudit-Id: v\r\nWarning: v\r\nWarning: w\r\n\
             X-Content-Type-Options: v\r\n"
        );
        request.set_version(Version::HTTP_2);
        assert!(wire(&request).contains("audit-id: v\r\nwarning: v\r\n"));
    }
}
