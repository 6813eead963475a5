//! The headers that tell browsers which pages may read an answer (CORS), and that
//! the server may be used only with TLS (HSTS), and the answer to a preflight
//! (OPTIONS). kube-apiserver adds them before it knows the caller. So all answers have
//! them, even refusals.

use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, HeaderName, ORIGIN,
    STRICT_TRANSPORT_SECURITY,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::answer::Answer;
use crate::server::exchange::Exchange;
use crate::server::state::generation::Generation;

/// The headers for a page of another origin, besides the one with its origin.
const ALLOWED: [(HeaderName, HeaderValue); 4] = [
    (
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE, PATCH"),
    ),
    (
        ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(
            "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, \
             X-Requested-With, If-Modified-Since",
        ),
    ),
    (
        ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("Date"),
    ),
    (
        ACCESS_CONTROL_ALLOW_CREDENTIALS,
        HeaderValue::from_static("true"),
    ),
];

/// Returns the headers for the answer to this request. Mostly there are none.
pub(in crate::server) fn headers(
    exchange: &Exchange<'_>,
    generation: &Generation,
) -> Option<Box<HeaderMap>> {
    let browsers = &generation.settings.browsers;
    if browsers.is_silent() {
        return None;
    }
    let mut headers = HeaderMap::new();
    // Browsers must ignore this header without TLS (RFC 6797, 7.2).
    if let Some(value) = browsers
        .strict_transport_security
        .as_ref()
        .filter(|_| exchange.is_tls())
    {
        headers.insert(STRICT_TRANSPORT_SECURITY, value.clone());
    }
    let origin = exchange.request().headers.get(ORIGIN);
    if let Some(origin) = origin.filter(|origin| browsers.allows(origin)) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.extend(ALLOWED);
    }
    (!headers.is_empty()).then(|| Box::new(headers))
}

/// Returns the answer to a browser that asks whether a page may send a request. The
/// question comes without credentials.
pub(in crate::server) fn preflight(method: &Method, headers: Option<&HeaderMap>) -> Option<Answer> {
    let allowed = headers?.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN);
    let is_asked = allowed && *method == Method::OPTIONS;
    is_asked.then(|| Answer::of_parts(StatusCode::NO_CONTENT, HeaderMap::new(), Vec::new()))
}

/// Adds the headers to an answer. One from upstream mostly has the same ones.
pub(super) fn add(headers: &HeaderMap, answer: &mut HeaderMap) {
    for (name, value) in headers {
        answer.insert(name, value.clone());
    }
}
