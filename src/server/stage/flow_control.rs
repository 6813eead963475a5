//! The response headers that name a request's FlowSchema and its priority level
//! by their UIDs: k8s.io/api `flowcontrol/v1`, `types.go`.

use http::{HeaderMap, HeaderValue};
use pingora_core::Result;
use pingora_http::ResponseHeader;

use crate::flow::Classification;

/// The names, written as Go writes them.
const FLOW_SCHEMA: &str = "X-Kubernetes-Pf-Flowschema-Uid";
const PRIORITY_LEVEL: &str = "X-Kubernetes-Pf-Prioritylevel-Uid";

/// Adds the headers to an answer. Objects that are not the cluster's have no
/// UID, and then nothing is said.
pub(in crate::server) fn add(
    header: &mut ResponseHeader,
    classification: Option<&Classification>,
) -> Result<()> {
    let Some(class) = classification else {
        return Ok(());
    };
    for (name, uid) in [
        (FLOW_SCHEMA, class.flow_schema_uid()),
        (PRIORITY_LEVEL, class.priority_level_uid()),
    ] {
        if let Ok(uid) = HeaderValue::from_str(uid)
            && !uid.is_empty()
        {
            header.append_header(name, uid)?;
        }
    }
    Ok(())
}

/// Adds the headers to the answer of a backend, before those that the backend
/// itself gave: kube-apiserver's aggregator adds a backend's headers to its own.
/// `received` are the headers as they came.
pub(in crate::server) fn add_before(
    header: &mut ResponseHeader,
    received: &HeaderMap,
    classification: Option<&Classification>,
) -> Result<()> {
    for name in [FLOW_SCHEMA, PRIORITY_LEVEL] {
        header.remove_header(name);
    }
    add(header, classification)?;
    for name in [FLOW_SCHEMA, PRIORITY_LEVEL] {
        for value in received.get_all(name) {
            header.append_header(name, value)?;
        }
    }
    Ok(())
}
