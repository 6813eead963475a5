//! Rewrites the heads of backends' answers as kube-apiserver's aggregator does with
//! Go's `httputil.ReverseProxy` and apimachinery `util/proxy`.

use apifront_upstream::HOP_BY_HOP;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONNECTION, HeaderName,
};
use http::{HeaderMap, HeaderValue, Version};
use kubernetes_wire::request::ConnectionOptions;

use super::head::NOT_CACHED;
use crate::flow::Classification;
use crate::server::stage::{AUDIT_ID, flow_control};

/// The headers of a backend's answer that are about another origin than the one that
/// the client knows.
const OF_THE_ORIGIN: [HeaderName; 4] = [
    ACCESS_CONTROL_ALLOW_CREDENTIALS,
    ACCESS_CONTROL_ALLOW_HEADERS,
    ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// Removes the headers of an answer that are not for the client, and adds the
/// aggregator's own headers beside those of the backend.
pub(super) fn rewrite(
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
