//! Refuses requests that two HTTP parsers could read differently, and requests
//! whose headers are too large.

use http::header::{HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode, Version};
use pingora_proxy::Session;

use crate::config::Serving;

/// A status and its text, in the words of Go's HTTP server, which answers such
/// requests in plain text, before any API machinery.
pub(in crate::server) type Refusal = (StatusCode, &'static str);

/// Returns the refusal of an unacceptable request.
pub(in crate::server) fn refuse(session: &Session, serving: &Serving) -> Option<Refusal> {
    let request = session.req_header();
    if request.method == Method::CONNECT {
        return Some((StatusCode::METHOD_NOT_ALLOWED, "405 Method Not Allowed"));
    }
    let target = request.raw_path().len();
    if size(&request.headers).saturating_add(target) > serving.connection.max_request_header_bytes {
        return Some((
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "431 Request Header Fields Too Large",
        ));
    }
    ambiguity(session).map(|text| (StatusCode::BAD_REQUEST, text))
}

/// Returns the refusal's text for a request that two parsers could take for two
/// requests.
fn ambiguity(session: &Session) -> Option<&'static str> {
    let request = session.req_header();
    let headers = &request.headers;
    // RFC 9112, 6.1: both headers together are an attempt at request smuggling.
    // pingora drops the length, so it is searched for in the received bytes.
    if headers.contains_key(TRANSFER_ENCODING)
        && let Some(http1) = session.as_http1()
        && has_content_length(&http1.get_headers_raw_bytes())
    {
        return Some("400 Bad Request: both Content-Length and Transfer-Encoding");
    }
    if !is_target(request.raw_path(), &request.method) {
        return Some("400 Bad Request: invalid request target");
    }
    // RFC 9112, 3.2. HTTP/2 has :authority instead.
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => Some("400 Bad Request: too many Host headers"),
        (Some(host), None) if !host.as_bytes().iter().all(is_host_byte) => {
            Some("400 Bad Request: malformed Host header")
        }
        (None, _) if request.version == Version::HTTP_11 => {
            Some("400 Bad Request: missing required Host header")
        }
        _ => None,
    }
}

fn has_content_length(header: &[u8]) -> bool {
    const NAME: &[u8] = b"content-length";
    header.split(|b| *b == b'\n').any(|line| {
        line.get(..NAME.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(NAME))
            && line.get(NAME.len()).is_some_and(|b| *b == b':')
    })
}

/// Accepts the origin form, the absolute form, and the asterisk of OPTIONS.
fn is_target(target: &[u8], method: &Method) -> bool {
    target.starts_with(b"/")
        || target.starts_with(b"http://")
        || target.starts_with(b"https://")
        || (target == b"*" && *method == Method::OPTIONS)
}

/// Does the same as Go's `httpguts.ValidHostHeader` for one byte.
fn is_host_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(byte)
}

/// The bytes of the colon, the space and the line end of a header.
const LINE_BYTES: usize = 4;

fn size(headers: &HeaderMap) -> usize {
    headers
        .iter()
        .map(|(name, value)| name.as_str().len().saturating_add(value.len()))
        .fold(0, |sum, line| {
            sum.saturating_add(line).saturating_add(LINE_BYTES)
        })
}
