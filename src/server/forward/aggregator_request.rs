//! Rewrites the heads of requests to backends as kube-apiserver's aggregator does with
//! Go's `httputil.ReverseProxy` and apimachinery `util/proxy`.

use http::Uri;
use http::header::HeaderName;
use kubernetes_wire::api::query;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use pingora_core::Result;
use pingora_http::RequestHeader;

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

/// Rewrites the request line, and adds headers that tell a backend how the request
/// came. The aggregator parses path and query and writes them again: it unescapes
/// and escapes the path, sorts the keys of the query, and drops malformed pairs.
pub(super) fn rewrite(request: &mut RequestHeader, forward: &Forward) -> Result<()> {
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
