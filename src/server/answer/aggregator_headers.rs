//! Rewrites the heads of requests to backends, and of their answers, as
//! kube-apiserver's aggregator does with Go's `httputil.ReverseProxy` and
//! apimachinery `util/proxy`.

use apifront_upstream::HOP_BY_HOP;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONNECTION, HeaderName,
};
use http::{HeaderMap, HeaderValue, Uri, Version};
use kubernetes_wire::api::query;
use kubernetes_wire::request::ConnectionOptions;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use pingora_core::Result;
use pingora_http::RequestHeader;

use super::head::NOT_CACHED;
use crate::flow::Classification;
use crate::server::stage::AUDIT_ID;
use crate::server::stage::flow_control;
use crate::server::stage::forwarded::Forward;

const X_FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The characters that Go escapes in a path (`net/url`, `shouldEscape`).
const ESCAPED_IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// The headers of a backend's answer that are about another origin than the one that
/// the client knows.
const OF_THE_ORIGIN: [HeaderName; 4] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// Rewrites the request line, and adds headers that tell a backend how the request
/// came. The aggregator parses path and query and writes them again: it unescapes
/// and escapes the path, sorts the keys of the query, and drops malformed pairs.
pub(in crate::server) fn request(request: &mut RequestHeader, forward: &Forward) -> Result<()> {
    if forward.route().is_none() {
        return Ok(());
    }
    let path = escaped(request.uri.path());
    let query = query::rewritten(request.uri.query().unwrap_or_default());
    let rewritten = match query.is_empty() {
        true => path.clone(),
        false => format!("{path}?{query}"),
    };
    if let Ok(uri) = Uri::try_from(rewritten) {
        request.set_uri(uri);
    }
    // The aggregator's transport adds these headers, but upgrades do not pass it.
    if forward.upgrade().is_some() {
        return Ok(());
    }
    request.insert_header(X_FORWARDED_URI, cleaned(&path))?;
    if let Some(endpoint) = forward.tried.last() {
        request.insert_header(X_FORWARDED_HOST, endpoint.name.as_str())?;
    }
    request.insert_header(X_FORWARDED_PROTO, "https")
}

fn escaped(path: &str) -> String {
    let plain: Vec<u8> = percent_decode_str(path).collect();
    percent_encode(&plain, ESCAPED_IN_PATHS).to_string()
}

/// Does what Go's `path.Clean` does for a path that begins with a slash, but keeps a
/// slash at the end.
fn cleaned(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            segment => segments.push(segment),
        }
    }
    let end = match path.ends_with('/') && !segments.is_empty() {
        true => "/",
        false => "",
    };
    format!("/{}{end}", segments.join("/"))
}

/// Removes the headers of an answer that are not for the client, and adds the
/// aggregator's own headers beside those of the backend.
pub(super) fn answer(
    headers: &mut HeaderMap,
    audit_id: &HeaderValue,
    classification: Option<&Classification>,
) {
    let connection = ConnectionOptions::read(headers, Version::HTTP_11);
    for name in connection.named().filter(|name| !is_framing(name)) {
        headers.remove(name);
    }
    // The HTTP server sets the framing headers.
    let of_the_connection = HOP_BY_HOP.iter().filter(|name| !is_framing(name));
    for name in OF_THE_ORIGIN.iter().chain(of_the_connection) {
        headers.remove(name);
    }
    headers.append(AUDIT_ID, audit_id.clone());
    headers.append(CACHE_CONTROL, HeaderValue::from_static(NOT_CACHED));
    // The backend's own values follow.
    for (name, uid) in flow_control::uids(classification) {
        let received: Vec<_> = headers.get_all(&name).iter().cloned().collect();
        headers.remove(&name);
        for value in uid.cloned().into_iter().chain(received) {
            headers.append(&name, value);
        }
    }
}

/// Tells whether a header belongs to HTTP's framing, even if a Connection header
/// names it.
fn is_framing(name: &HeaderName) -> bool {
    [
        http::header::CONTENT_LENGTH,
        http::header::TRANSFER_ENCODING,
        CONNECTION,
    ]
    .contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_go_does() {
        for (path, expected) in [
            ("/apis/g/v1", "/apis/g/v1"),
            ("/a%2Fb", "/a/b"),
            ("/a%20b/%C3%BC", "/a%20b/%C3%BC"),
            ("/a+b/~!*()'$@,;:=", "/a+b/~%21%2A%28%29%27$@,;:="),
            ("/%zz", "/%25zz"),
        ] {
            assert_eq!(escaped(path), expected);
        }
        for (path, expected) in [
            ("/a/b", "/a/b"),
            ("/a//b/", "/a/b/"),
            ("/a/./../b", "/b"),
            ("//", "/"),
        ] {
            assert_eq!(cleaned(path), expected);
        }
    }
}
