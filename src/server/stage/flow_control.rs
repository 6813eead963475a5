//! The response headers that name a request's FlowSchema and its priority level
//! by their UIDs: k8s.io/api `flowcontrol/v1`, `types.go`.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::flow::Classification;

const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// Returns the names, and the values for a request. Objects that are not the
/// cluster's have no UID, and then nothing is said.
pub(in crate::server) fn uids(
    classification: Option<&Classification>,
) -> [(HeaderName, Option<&HeaderValue>); 2] {
    [
        (
            FLOW_SCHEMA,
            classification.and_then(Classification::flow_schema_uid),
        ),
        (
            PRIORITY_LEVEL,
            classification.and_then(Classification::priority_level_uid),
        ),
    ]
}

/// Adds the headers to an answer.
pub(in crate::server) fn add(headers: &mut HeaderMap, classification: Option<&Classification>) {
    for (name, uid) in uids(classification) {
        if let Some(uid) = uid {
            headers.append(name, uid.clone());
        }
    }
}
