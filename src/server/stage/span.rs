//! Begins the spans of a request. Its steps report to the
//! [`RequestSpan`] in its context.

use http::HeaderMap;
use kubernetes_wire::api::UserInfo;
use kubernetes_wire::api::user::{MASTERS, MONITORING};

use super::identified::{Identified, Refused};
use super::received::Received;
use crate::spans::{Beginning, RequestSpan};

/// Begins the span of a known caller. The owner of a personal apifront is trusted,
/// because nobody else can reach it.
pub(in crate::server) fn admitted(
    headers: &HeaderMap,
    identified: &Identified,
) -> Option<Box<RequestSpan>> {
    begin(headers, identified, || {
        identified.known().is_none_or(is_trusted)
    })
}

/// Begins the span of a known caller who is refused. Unknown callers leave no span,
/// as in kube-apiserver.
pub(in crate::server) fn refused(
    headers: &HeaderMap,
    received: &Received,
    refused: &Refused,
) -> Option<Box<RequestSpan>> {
    match refused {
        Refused::Caller(_) => None,
        Refused::Later { caller, .. } => begin(headers, received, || {
            caller.as_ref().is_some_and(is_trusted)
        }),
    }
}

/// Tells whether kube-apiserver would continue the caller's trace (k8s.io/apiserver
/// `endpoints/filters/traces.go`). `user` is the authenticated user, not the
/// impersonated one.
fn is_trusted(user: &UserInfo) -> bool {
    user.groups.iter().any(|g| g == MASTERS || g == MONITORING)
}

fn begin(
    headers: &HeaderMap,
    received: &Received,
    trusted: impl FnOnce() -> bool,
) -> Option<Box<RequestSpan>> {
    received.generation().tracing.begin(|| Beginning {
        info: received.info(),
        headers,
        started: received.started(),
        peer: received.client_address(),
        audit_id: received.audit_id().to_str().unwrap_or_default(),
        trusted: trusted(),
    })
}
