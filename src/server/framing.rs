//! Requests that two HTTP parsers could read differently, and requests that
//! are too large to look at.

use http::header::{CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode, Version};
use pingora_proxy::Session;

use super::respond::Answer;
use crate::config::Serving;

/// The refusal of an unacceptable request, as Go's HTTP server words it: it
/// answers before any API machinery, in plain text.
pub(super) fn refuse(session: &Session, serving: &Serving) -> Option<Answer> {
    let request = session.req_header();
    let headers = &request.headers;
    if request.method == Method::CONNECT {
        return Some(plain(
            StatusCode::METHOD_NOT_ALLOWED,
            "405 Method Not Allowed",
        ));
    }
    // RFC 9112, 6.1: both together is an attempt at request smuggling.
    if headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING) {
        return Some(plain(
            StatusCode::BAD_REQUEST,
            "400 Bad Request: both Content-Length and Transfer-Encoding",
        ));
    }
    // RFC 9112, 3.2; HTTP/2 has :authority.
    if request.version == Version::HTTP_11 && !headers.contains_key(HOST) {
        return Some(plain(
            StatusCode::BAD_REQUEST,
            "400 Bad Request: missing required Host header",
        ));
    }
    if headers.get_all(HOST).iter().count() > 1 {
        return Some(plain(
            StatusCode::BAD_REQUEST,
            "400 Bad Request: too many Host headers",
        ));
    }
    if size(headers) + request.raw_path().len() > serving.max_request_header_bytes {
        return Some(plain(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "431 Request Header Fields Too Large",
        ));
    }
    None
}

fn size(headers: &HeaderMap) -> usize {
    headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4)
        .sum()
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    Answer::new(status, "text/plain; charset=utf-8", vec![text.into()])
}
