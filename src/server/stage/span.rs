//! Begins the spans of a request. Its steps report to the
//! [`RequestSpan`] in its context.

use http::HeaderMap;

use super::identified::{Identified, Refused};
use super::received::Received;
use crate::spans::{Beginning, RequestSpan, continues_trace};

/// Begins the span of a known caller. The owner of a personal apifront is trusted,
/// because nobody else can reach it.
pub(in crate::server) fn admitted(
    headers: &HeaderMap,
    identified: &Identified,
) -> Option<Box<RequestSpan>> {
    begin(headers, identified, || {
        identified.known().is_none_or(continues_trace)
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
            caller.as_ref().is_some_and(continues_trace)
        }),
    }
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
