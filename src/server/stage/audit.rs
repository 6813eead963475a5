//! Begins the audit trail of a request. The request's steps report to the
//! [`Trail`] in its context.

use std::time::SystemTime;

use http::header::AUTHORIZATION;
use kubernetes_wire::api::{Query, UserInfo};
use pingora_proxy::Session;

use super::identified::{Identified, Refused};
use super::received::Received;
use crate::audit::{Request, Trail};
use crate::authn::Peer;

/// Begins the trail for a path that answers every caller without
/// authentication.
pub(in crate::server) fn unasked(session: &Session, received: &Received) -> Option<Box<Trail>> {
    begin(session, received, Some(&UserInfo::anonymous()))
}

/// Begins the trail of a known caller, who may act as another user.
pub(in crate::server) fn admitted(
    session: &Session,
    identified: &Identified,
) -> Option<Box<Trail>> {
    let Some(impersonator) = identified.impersonator() else {
        return begin(session, identified, identified.user());
    };
    let mut trail = begin(session, identified, Some(&impersonator.caller))?;
    if let Some(user) = identified.user() {
        trail.impersonated(user, impersonator.constraint);
    }
    Some(trail)
}

pub(in crate::server) fn refused(
    session: &Session,
    received: &Received,
    refused: &Refused,
) -> Option<Box<Trail>> {
    match refused {
        Refused::Caller(_) => {
            let message = attempted(session, received.query());
            let request = request(session, received, None);
            received.generation().audit.refuse(&request, message)
        }
        Refused::Later { caller, .. } => begin(session, received, caller.as_ref()),
    }
}

fn begin(session: &Session, received: &Received, user: Option<&UserInfo>) -> Option<Box<Trail>> {
    let audit = &received.generation().audit;
    if !audit.is_on() {
        return None;
    }
    audit.begin(&request(session, received, user))
}

fn request<'r>(
    session: &'r Session,
    received: &'r Received,
    user: Option<&'r UserInfo>,
) -> Request<'r> {
    let request = session.req_header();
    let now = SystemTime::now();
    Request {
        info: received.info(),
        user,
        uri: request.uri.path_and_query().map_or("/", |p| p.as_str()),
        headers: &request.headers,
        peer: received.client(),
        audit_id: received.audit_id().as_bytes(),
        received: now.checked_sub(received.started().elapsed()).unwrap_or(now),
    }
}

/// Names the credentials that an unknown caller tried, as k8s.io/apiserver
/// `endpoints/filters/authn_audit.go` does.
fn attempted(session: &Session, query: &Query) -> String {
    let authorization = session.req_header().headers.get(AUTHORIZATION);
    let authorization = authorization.and_then(|v| v.to_str().ok());
    let scheme = authorization.and_then(|text| text.trim().split_once(' '));
    let is_scheme = |name: &str| scheme.is_some_and(|(s, _)| s.eq_ignore_ascii_case(name));
    let peer = session.digest().and_then(|d| d.ssl_digest.as_ref());
    let peer = peer.and_then(|ssl| ssl.extension.get::<Peer>());
    let tried = [
        ("basic", is_scheme("basic")),
        ("bearer", is_scheme("bearer")),
        (
            "access_token",
            query
                .get("access_token")
                .is_some_and(|t| !t.trim().is_empty()),
        ),
        ("x509", peer.is_some_and(Peer::has_certificate)),
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
