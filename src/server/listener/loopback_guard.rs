//! The checks of `kubectl proxy`, for a listener that acts with its owner's
//! credentials: it answers only this machine, and no foreign web page.
//!
//! kubectl proxy checks only the name in the Host header, and rejects exec and
//! attach of pods. Here the port, the origin, and what browsers say about the
//! page are checked, too (`foreign_request.rs`), so that exec can stay open to
//! programs.
//!
//! **Pages from inside the cluster.** The `proxy` subresources of pods,
//! services and nodes answer with what a program in the cluster sends. A page
//! from there would have the same origin as the API, and its scripts would act
//! as the owner. No header distinguishes its requests from those of a page of
//! apifront. Therefore each answer that a browser may show as a page is put
//! into a sandbox by `Content-Security-Policy`: it has an origin of its own,
//! and no scripts; what it loads comes as `cross-site` and is refused. To work
//! with a web application of the cluster in a browser, people can use `kubectl
//! port-forward`, which gives the application an origin of its own.

use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, request};

use super::foreign_request::{self, Port};

const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");

/// Returns the reason why a request is refused. `port` is that of the listener.
pub(in crate::server) fn foreign(
    request: &request::Parts,
    target: &[u8],
    port: Option<u16>,
) -> Option<&'static str> {
    // If the port is not known, no port is right.
    let port = Port::Own(port.unwrap_or(0));
    let authority = request.uri.authority().map(|a| a.as_str().as_bytes());
    let target = foreign_request::absolute_authority(target);
    foreign_request::why_refused(&request.headers, [authority, target].into_iter(), port)
}

/// Prevents a forwarded answer from becoming a page of the owner's origin.
pub(in crate::server) fn sandbox(answer: &mut HeaderMap) {
    // The answer keeps its own policies, because browsers apply all of them.
    answer.append(CONTENT_SECURITY_POLICY, SANDBOX);
    answer.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
}

/// Tells whether a browser may show an answer as a page. It does not show the types
/// that API servers use.
pub(in crate::server) fn may_be_page(headers: &HeaderMap) -> bool {
    !is_data(headers)
}

fn is_data(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let (Some(only), None) = (types.next(), types.next()) else {
        return false;
    };
    let essence = only.as_bytes().split(|b| *b == b';').next();
    let essence = essence.unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"application/json")
        || essence.eq_ignore_ascii_case(b"application/vnd.kubernetes.protobuf")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_data_is_no_page() {
        for (types, expected) in [
            (&["application/json"][..], true),
            (&["application/json;as=Table;v=v1;g=meta.k8s.io"], true),
            (&["application/vnd.kubernetes.protobuf"], true),
            (&["text/html"], false),
            (&["text/plain"], false),
            (&["image/svg+xml"], false),
            (&["application/jsonp"], false),
            (&["application/json", "text/html"], false),
            (&["application/json, text/html"], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for value in types {
                headers.append(CONTENT_TYPE, value.parse().unwrap());
            }
            assert_eq!(is_data(&headers), expected, "{types:?}");
        }
    }
}
