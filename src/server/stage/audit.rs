//! Begins the audit trail of a request. The request's steps report to the
//! [`Trail`] in its context.

use std::time::SystemTime;

use http::header::AUTHORIZATION;
use http::request;
use kubernetes_wire::api::UserInfo;

use super::identified::{Identified, Refused};
use super::received::Received;
use crate::audit::{Request, Trail};

/// Begins the trail for a path that answers every caller without
/// authentication.
pub(in crate::server) fn unasked(head: &request::Parts, received: &Received) -> Option<Box<Trail>> {
    begin(head, received, Some(&UserInfo::anonymous()))
}

/// Begins the trail of a known caller, who may act as another user.
pub(in crate::server) fn admitted(
    head: &request::Parts,
    identified: &Identified,
) -> Option<Box<Trail>> {
    let Some(impersonator) = identified.impersonator() else {
        return begin(head, identified, identified.user());
    };
    let mut trail = begin(head, identified, Some(&impersonator.caller))?;
    if let Some(user) = identified.user() {
        trail.impersonated(user, impersonator.constraint);
    }
    Some(trail)
}

pub(in crate::server) fn refused(
    head: &request::Parts,
    received: &Received,
    refused: &Refused,
) -> Option<Box<Trail>> {
    match refused {
        Refused::Caller(_) => {
            let message = attempted(head, received);
            let request = request(head, received, None);
            received.generation().audit.refuse(&request, message)
        }
        Refused::Later { caller, .. } => begin(head, received, caller.as_ref()),
    }
}

fn begin(
    head: &request::Parts,
    received: &Received,
    user: Option<&UserInfo>,
) -> Option<Box<Trail>> {
    let audit = &received.generation().audit;
    if !audit.is_on() {
        return None;
    }
    audit.begin(&request(head, received, user))
}

fn request<'r>(
    head: &'r request::Parts,
    received: &'r Received,
    user: Option<&'r UserInfo>,
) -> Request<'r> {
    let now = SystemTime::now();
    Request {
        info: received.info(),
        user,
        uri: head.uri.path_and_query().map_or("/", |p| p.as_str()),
        headers: &head.headers,
        peer: received.client(),
        audit_id: received.audit_id().as_bytes(),
        received: now.checked_sub(received.started().elapsed()).unwrap_or(now),
    }
}

/// Names the credentials that an unknown caller tried, as k8s.io/apiserver
/// `endpoints/filters/authn_audit.go` does.
fn attempted(head: &request::Parts, received: &Received) -> String {
    let authorization = head.headers.get(AUTHORIZATION);
    let authorization = authorization.and_then(|v| v.to_str().ok());
    let scheme = authorization.and_then(|text| text.trim().split_once(' '));
    let is_scheme = |name: &str| scheme.is_some_and(|(s, _)| s.eq_ignore_ascii_case(name));
    let tried = [
        ("basic", is_scheme("basic")),
        ("bearer", is_scheme("bearer")),
        (
            "access_token",
            received
                .query()
                .get("access_token")
                .is_some_and(|t| !t.trim().is_empty()),
        ),
        ("x509", received.has_certificate()),
    ];
    let tried: Vec<&str> = tried
        .iter()
        .filter(|(_, is)| *is)
        .map(|(name, _)| *name)
        .collect();
    if tried.is_empty() {
        return "Authentication failed, no credentials provided".to_owned();
    }
    format!("Authentication failed, attempted: {}", tried.join(", "))
}
