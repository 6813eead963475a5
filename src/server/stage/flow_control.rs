//! The response headers that name a request's FlowSchema and its priority level
//! by their UIDs: k8s.io/api `flowcontrol/v1`, `types.go`.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::timeout;

use super::identified::Identified;
use super::received::Received;
use crate::flow::{Classification, RequestKind};
use crate::server::exchange::Exchange;

const FLOW_SCHEMA: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// How long the answer to a health request waits for the caller's identity. Upstream
/// is asked only about a bearer token that is not known yet, and probes have none.
const CALLER_KNOWN_WITHIN: Duration = Duration::from_millis(250);

/// Classifies a health request, which needs neither authorization nor a seat.
/// Clients ask `/livez/ping` to learn whether the API server has Priority and
/// Fairness. If it does not, they slow themselves down.
pub(in crate::server) async fn of_health(
    exchange: &mut Exchange<'_>,
    received: Arc<Received>,
) -> Option<Classification> {
    let identify = Identified::identify(received, exchange);
    let identified = timeout(CALLER_KNOWN_WITHIN, identify).await.ok()?.ok()?;
    let flow = &identified.generation().flow;
    flow.classify(
        RequestKind::from_info(identified.info()),
        identified.clone(),
    )
}

/// Returns the header names, and their values for a request. Objects that are not
/// the cluster's own have no UID, so their headers are left out.
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

pub(in crate::server) fn add(headers: &mut HeaderMap, classification: Option<&Classification>) {
    for (name, uid) in uids(classification) {
        if let Some(uid) = uid {
            headers.append(name, uid.clone());
        }
    }
}
