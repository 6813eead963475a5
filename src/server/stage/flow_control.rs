//! The response headers that name a request's FlowSchema and its priority level
//! by their UIDs: k8s.io/api `flowcontrol/v1`, `types.go`.

use http::{HeaderMap, HeaderName};
use pingora_core::Result;
use pingora_http::ResponseHeader;

use crate::flow::Classification;

const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The names, and as Go writes them.
const NAMES: [(HeaderName, &str); 2] = [
    (FLOW_SCHEMA, "X-Kubernetes-Pf-Flowschema-Uid"),
    (PRIORITY_LEVEL, "X-Kubernetes-Pf-Prioritylevel-Uid"),
];

/// Adds the headers to an answer. Objects that are not the cluster's have no
/// UID, and then nothing is said.
pub(in crate::server) fn add(headers: &mut HeaderMap, classification: Option<&Classification>) {
    let Some(class) = classification else { return };
    if let Some(uid) = class.flow_schema_uid() {
        headers.append(FLOW_SCHEMA, uid.clone());
    }
    if let Some(uid) = class.priority_level_uid() {
        headers.append(PRIORITY_LEVEL, uid.clone());
    }
}

/// Adds the headers to the answer of a backend, before those that the backend
/// itself gave: kube-apiserver's aggregator adds a backend's headers to its own.
/// `received` are the headers as they came.
pub(in crate::server) fn add_before(
    header: &mut ResponseHeader,
    received: &HeaderMap,
    classification: Option<&Classification>,
) -> Result<()> {
    let mut all = HeaderMap::new();
    add(&mut all, classification);
    for (name, written) in NAMES {
        header.remove_header(&name);
        let values = all.get_all(&name).iter();
        for value in values.chain(received.get_all(&name)) {
            header.append_header(written, value)?;
        }
    }
    Ok(())
}
