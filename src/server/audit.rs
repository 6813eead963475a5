//! A request on its way through the audit log: where its steps are told to the
//! [`Trail`](crate::audit::Trail) in its context.

use std::time::SystemTime;

use http::header::AUTHORIZATION;
use pingora_proxy::Session;

use super::admit::{Admitted, Refused};
use super::context::RequestContext;
use super::front::{Delegated, Gate};
use super::respond::Answer;
use crate::api::{Attributes, Query, Status, UserInfo};
use crate::audit::{Request, Trail};
use crate::authn::Peer;
use crate::authz::{Decision, Ruling};

/// Annotations of who decided, and why: k8s.io/apiserver
/// `endpoints/filters/authorization.go`.
const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";
const NOBODY_COULD_SAY: &str = "internal error";

impl RequestContext {
    /// Of a path that answers whoever asks: nobody has asked who that is.
    pub(super) fn audit_unasked(&mut self, session: &Session) {
        self.audit_as(session, Some(&UserInfo::anonymous()));
    }

    /// Of a caller who is known, and perhaps goes on as somebody else.
    pub(super) fn audit_admitted(&mut self, session: &Session, admitted: &Admitted) {
        let Some(impersonation) = &admitted.impersonation else {
            return self.audit_as(session, admitted.user.as_ref());
        };
        self.audit_as(session, Some(&impersonation.caller));
        if let (Some(trail), Some(user)) = (&mut self.audit, &admitted.user) {
            trail.impersonated(user, impersonation.constraint);
        }
    }

    /// Of a caller who may not come in.
    pub(super) fn audit_refused(&mut self, session: &Session, refused: &Refused) {
        match refused {
            Refused::Caller(_) => {
                let message = attempted(session, &self.query);
                self.audit = self
                    .audit_request(session, None)
                    .and_then(|request| self.front.audit.refuse(&request, message));
            }
            Refused::Later { caller, .. } => self.audit_as(session, caller.as_ref()),
        }
    }

    fn audit_as(&mut self, session: &Session, user: Option<&UserInfo>) {
        self.audit = self
            .audit_request(session, user)
            .and_then(|request| self.front.audit.begin(&request));
    }

    fn audit_request<'r>(
        &'r self,
        session: &'r Session,
        user: Option<&'r UserInfo>,
    ) -> Option<Request<'r>> {
        let request = session.req_header();
        let now = SystemTime::now();
        Some(Request {
            info: self.info.as_ref()?,
            user,
            uri: request.uri.path_and_query().map_or("/", |p| p.as_str()),
            headers: &request.headers,
            peer: self.client,
            audit_id: self.audit_id.as_bytes(),
            received: now.checked_sub(self.started.elapsed()).unwrap_or(now),
        })
    }

    /// A whole answer of our own.
    pub(super) fn audit_answer(&mut self, answer: &Answer) {
        let Some(trail) = &mut self.audit else { return };
        trail.response(answer.status.as_u16(), &answer.headers);
        for piece in &answer.body {
            trail.response_piece(piece);
        }
    }
}

/// What a caller is told who may not do what the request asks for.
pub(super) async fn refuse_unauthorized(
    session: &Session,
    ctx: &mut RequestContext,
) -> Option<Answer> {
    let (info, user) = (ctx.info.as_ref()?, ctx.user.as_ref()?);
    let Gate::Delegated(gate) = &ctx.front.gate else {
        return None;
    };
    let trail = ctx.audit.as_deref_mut();
    let refused = authorize(gate, user, &info.attributes(), trail).await;
    let status = refused.err()?;
    let headers = &session.req_header().headers;
    Some(Answer::from_status(&status, headers, &ctx.query))
}

/// What a caller tried whom nobody knows: k8s.io/apiserver
/// `endpoints/filters/authn_audit.go`.
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

/// Whether the caller may, with what the audit log wants to know of that. Each
/// request's own question goes this way.
pub(super) async fn authorize(
    gate: &Delegated,
    user: &UserInfo,
    attributes: &Attributes,
    trail: Option<&mut Trail>,
) -> Result<(), Status> {
    let Ruling { verdict, outcome } = gate.authorizer.authorize_request(user, attributes).await;
    if let Some(trail) = trail {
        match &verdict {
            Some(verdict) => {
                let is_allowed = verdict.decision == Decision::Allow;
                trail.annotate(DECISION, if is_allowed { "allow" } else { "forbid" });
                trail.annotate(REASON, verdict.reason.clone());
            }
            None => trail.annotate(REASON, NOBODY_COULD_SAY),
        }
    }
    outcome
}
