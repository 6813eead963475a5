//! Requests for the group versions of backends: as kube-apiserver's aggregator
//! treats them (kube-aggregator, `handler_proxy.go`).

use std::time::Duration;

use bytes::Bytes;
use http::header::LOCATION;
use http::{HeaderMap, Method, StatusCode};
use hyper::Response;
use pingora_core::{Error, ErrorType, Result};
use pingora_http::ResponseHeader;
use pingora_proxy::Session;

use super::audit::refuse_unauthorized;
use super::context::RequestContext;
use super::relay;
use super::respond::Answer;
use crate::aggregation::view;
use crate::api::Status;
use crate::upstream::alone::AloneBody;

/// A backend that is asked what it serves answers within this.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
const TEXT: &str = "text/plain; charset=utf-8";
const UNAVAILABLE: &str = "service unavailable";
const REDIRECTED: &str = "the backend attempted to redirect this request, which is not permitted";
/// How a refused redirect is told from a 502 of another origin.
const REDIRECT: ErrorType = ErrorType::Custom("redirect of a backend");

/// A backend that is not available is not asked for what must be recent. What
/// may be old the cache can still know.
pub(super) async fn before_cache(session: &Session, ctx: &mut RequestContext) -> Option<Answer> {
    let remote = ctx.remote()?;
    let may_be_old = ctx
        .query
        .get("resourceVersion")
        .is_some_and(|v| !v.is_empty());
    let reads = session.req_header().method == Method::GET;
    if remote.availability.is_available() || may_be_old && reads {
        return None;
    }
    if let Some(refused) = refuse_unauthorized(session, ctx).await {
        return Some(refused);
    }
    Some(text(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE))
}

/// Backends are asked on behalf of those who may ask.
pub(super) async fn before_forwarding(
    session: &Session,
    ctx: &mut RequestContext,
) -> Option<Answer> {
    if let Some(status) = changes_ours(ctx) {
        // Whoever may not, hears no more than that.
        if let Some(refused) = refuse_unauthorized(session, ctx).await {
            return Some(refused);
        }
        return Some(Answer::from_status(
            &status,
            &session.req_header().headers,
            &ctx.query,
        ));
    }
    ctx.remote()?;
    if let Some(refused) = refuse_unauthorized(session, ctx).await {
        return Some(refused);
    }
    let long_running = ctx.info.as_ref().is_some_and(|i| i.is_long_running());
    let remote = ctx.remote()?;
    if !remote.availability.is_available() {
        return Some(text(StatusCode::SERVICE_UNAVAILABLE, UNAVAILABLE));
    }
    if long_running {
        return None;
    }
    let Some(in_flight) = remote.backend.admit() else {
        return Some(Answer::too_many_requests());
    };
    ctx.guards.backend = Some(in_flight);
    None
}

/// A write to an APIService of the configuration: nobody could make it so.
fn changes_ours(ctx: &RequestContext) -> Option<Status> {
    let info = ctx.info.as_ref()?;
    let of_api_services =
        info.gvr.group == view::GROUP && info.gvr.resource == view::RESOURCE && info.is_mutating();
    if !of_api_services {
        return None;
    }
    let registered = ctx.front.aggregation.registered();
    let ours = registered.iter().find(|r| r.service.name == info.name)?;
    Some(view::read_only(&ours.service))
}

/// Discovery is small, and everybody waits for it.
pub(super) fn timeout(ctx: &RequestContext) -> Option<Duration> {
    let info = ctx.info.as_ref().filter(|_| ctx.route.is_some())?;
    let is_discovery =
        !info.is_resource_request && info.path.trim_matches('/').split('/').count() == 3;
    is_discovery.then_some(DISCOVERY_TIMEOUT)
}

/// A backend's answer has begun.
pub(super) fn answered(response: &mut ResponseHeader, ctx: &RequestContext) -> Result<()> {
    let (Some(_), Some(endpoint)) = (&ctx.route, ctx.forward.tried.last()) else {
        return Ok(());
    };
    ctx.upstream().answered(endpoint, response.status.as_u16());
    if is_redirect(response.status, &response.headers) {
        return Error::e_explain(REDIRECT, REDIRECTED);
    }
    let received = response.headers.clone();
    relay::answer(response, &received, ctx)
}

/// The same for an answer on a connection of its own.
pub(super) fn checked(
    response: Response<AloneBody>,
    ctx: &RequestContext,
    upgrading: bool,
) -> std::result::Result<Response<AloneBody>, Answer> {
    let status = response.status();
    if ctx.route.is_none() {
        return Ok(response);
    }
    if upgrading && status.as_u16() < 400 && status != StatusCode::SWITCHING_PROTOCOLS {
        let why = format!("invalid upgrade response: status code {}", status.as_u16());
        return Err(unreachable(&why));
    }
    if !upgrading && is_redirect(status, response.headers()) {
        return Err(redirected());
    }
    Ok(response)
}

/// Not as `http.Error` says it: it stands in the place of the backend's answer.
fn redirected() -> Answer {
    Answer::new(StatusCode::BAD_GATEWAY, TEXT, vec![REDIRECTED.into()])
}

/// It would lead clients, and their credentials, to wherever the backend likes.
fn is_redirect(status: StatusCode, headers: &HeaderMap) -> bool {
    status.is_redirection() && headers.contains_key(LOCATION)
}

pub(super) fn failed(error: &Error) -> Answer {
    if error.etype() == &REDIRECT {
        return redirected();
    }
    let cause = error.root_cause();
    unreachable(&format!("error trying to reach service: {cause}"))
}

pub(super) fn unreachable(why: &str) -> Answer {
    text(StatusCode::SERVICE_UNAVAILABLE, why)
}

/// As Go's `http.Error`: the aggregator's own errors are no Status.
fn text(status: StatusCode, body: &str) -> Answer {
    let body = vec![Bytes::from(format!("{body}\n"))];
    Answer::new(status, TEXT, body).without_sniffing()
}
