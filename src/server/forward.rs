//! Passing a request on to an API server.

use std::time::Instant;

use http::header::{EXPECT, HOST};
use http::{Method, StatusCode, Version};
use pingora_core::ErrorSource;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorType, Result};
use pingora_http::{RequestHeader, ResponseHeader};
use pingora_proxy::{FailToProxy, Session};

use super::context::RequestContext;
use super::record::Finished;
use super::respond::{self, AUDIT_ID, Answer};
use super::stream::WRITE_TIMEOUT;
use super::{aggregate, pace, relay};
use crate::api::Status;
use crate::identity;
use crate::upstream::Purpose;

/// kube-apiserver's audit log takes its source addresses from here.
const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// A hint for clients while no API server can be reached.
pub(super) const RETRY_AFTER_SECONDS: u32 = 1;

pub(super) fn begin(session: &Session, ctx: &mut RequestContext) {
    ctx.forward.long_running = ctx.info.as_ref().is_some_and(|i| i.is_long_running());
    if ctx.forward.long_running {
        ctx.guards.long_running = Finished::new(session, ctx).long_running();
    }
}

/// A client that waits to be told before it sends its body is told: upstream's
/// own word does not come through HTTP/2. From here on it must keep pace.
pub(super) async fn go_on(session: &mut Session, ctx: &RequestContext) -> Result<()> {
    let request = session.req_header();
    if request.version == Version::HTTP_11 && request.headers.contains_key(EXPECT) {
        session.as_mut().write_continue_response().await?;
    }
    session.set_write_timeout(Some(WRITE_TIMEOUT));
    let session = session.as_mut();
    session.set_total_drain_timeout(Some(respond::DRAIN_WITHIN));
    if !ctx.forward.long_running && !session.is_body_empty() {
        pace::receiving();
    }
    Ok(())
}

/// Upstream has made the answer, or makes it as fast as the client reads: that
/// takes no seat.
pub(super) fn answer_begins(response: &ResponseHeader, ctx: &mut RequestContext) {
    if response.status.is_informational() || ctx.forward.long_running {
        return;
    }
    pace::answering();
    let limits = &ctx.front.limits;
    limits.answer_begins(&mut ctx.guards.in_flight, ctx.user.as_ref());
}

/// The next API server to try.
pub(super) async fn peer(session: &mut Session, ctx: &mut RequestContext) -> Result<Box<HttpPeer>> {
    let upstream = ctx.upstream();
    let Some(endpoint) = upstream.pick(&ctx.forward.tried) else {
        return Error::e_explain(ErrorType::ConnectError, "no API server left to try");
    };
    ctx.forward.asked.get_or_insert_with(Instant::now);
    ctx.forward.tried.push(endpoint.clone());
    let address = endpoint.address().await.map_err(|error| {
        upstream.report_failure(&endpoint, &error);
        let mut failed = Error::because(ErrorType::ConnectError, "cannot look up", error);
        failed.set_retry(true);
        failed
    })?;
    let purpose = if ctx.forward.long_running {
        // A watch may be silent for as long as it likes.
        session.set_read_timeout(None);
        Purpose::LongRunning
    } else {
        Purpose::Short
    };
    let mut peer = endpoint.forward.peer(address, purpose);
    if let Some(timeout) = aggregate::timeout(ctx) {
        peer.options.read_timeout = Some(timeout);
    }
    Ok(Box::new(peer))
}

/// Replaces the caller's credentials by what makes him known upstream.
pub(super) async fn rewrite(request: &mut RequestHeader, ctx: &mut RequestContext) -> Result<()> {
    let Some(endpoint) = ctx.forward.tried.last() else {
        return Error::e_explain(ErrorType::InternalError, "no API server chosen");
    };
    let own = endpoint
        .forward
        .headers
        .headers(&ctx.forward.identity)
        .await
        .map_err(|error| {
            Error::because(
                ErrorType::InternalError,
                "no credentials for upstream",
                error,
            )
        })?;
    if let Some(trail) = &mut ctx.audit {
        trail.request_begins();
    }
    // The client has been told to go on.
    request.remove_header(&EXPECT);
    relay::request(request, ctx)?;
    introduce(request, ctx)?;
    for (name, value) in &own {
        request.append_header(name, value)?;
    }
    request.insert_header(HOST, endpoint.name.as_str())
}

/// Whatever the way upstream: takes what the caller claims to be, and says who
/// is asking, from where, and in which request.
pub(super) fn introduce(request: &mut RequestHeader, ctx: &RequestContext) -> Result<()> {
    for (name, value) in identity::changes(&request.headers, ctx.front.gate.front_proxy()) {
        request.remove_header(&name);
        if let Some(value) = value {
            request.append_header(name, value)?;
        }
    }
    for (name, value) in &ctx.forward.identity {
        request.append_header(name, value)?;
    }
    request.insert_header(AUDIT_ID, &ctx.audit_id)?;
    if let Some(address) = ctx.client {
        let mut way: Vec<&str> = Vec::new();
        let before = request.headers.get_all(X_FORWARDED_FOR).iter();
        way.extend(before.filter_map(|value| value.to_str().ok()));
        let address = address.to_string();
        way.push(&address);
        // One line, as Go's proxies write it.
        let way = way.join(", ");
        request.insert_header(X_FORWARDED_FOR, way)?;
    }
    Ok(())
}

/// Connecting sent nothing: any request may try the next server.
pub(super) fn could_not_connect(ctx: &mut RequestContext, mut error: Box<Error>) -> Box<Error> {
    if let Some(endpoint) = ctx.forward.tried.last() {
        ctx.upstream().report_failure(endpoint, &error);
        tracing::warn!(server = %endpoint.name, %error, "cannot connect to the API server");
    }
    error.set_retry(true);
    error
}

/// The connection broke after the request was, perhaps, sent. Reads are asked
/// again; anything else may have had its effect.
pub(super) fn broke_off(
    session: &Session,
    ctx: &mut RequestContext,
    mut error: Box<Error>,
    client_reused: bool,
) -> Box<Error> {
    let upstreams = error.esource() == &ErrorSource::Upstream;
    let processed = !is_unprocessed(&error);
    let repeatable = upstreams
        && !answered(session)
        && !session.as_ref().retry_buffer_truncated()
        && (!processed || is_read(&session.req_header().method));
    if repeatable && (client_reused || !processed) {
        // A connection that the server wanted to close says nothing about it.
        ctx.forward.tried.pop();
    }
    ctx.forward.outcome_unknown = upstreams && processed && !repeatable;
    error.set_retry(repeatable);
    error
}

/// Upstream itself says that it did not look at the request (RFC 9113, 6.8 and
/// 8.7). API servers with `--goaway-chance` say so now and then.
fn is_unprocessed(error: &Error) -> bool {
    let cause = error.root_cause().downcast_ref::<h2::Error>();
    cause.is_some_and(|cause| {
        let reason = cause.reason();
        cause.is_remote()
            && (cause.is_go_away() && reason == Some(h2::Reason::NO_ERROR)
                || cause.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM))
    })
}

/// Whether the client has an answer; a 100 is none.
fn answered(session: &Session) -> bool {
    let written = session.as_ref().response_written();
    written.is_some_and(|header| !header.status.is_informational())
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Nothing was done; trying again may help.
pub(super) fn unreachable() -> Status {
    Status::service_unavailable("the API server cannot be reached")
        .with_retry_after(RETRY_AFTER_SECONDS)
}

/// The API server may have done what it was asked. No Retry-After: client-go
/// repeats any request, writes too, on a 5xx that has one.
pub(super) fn unknown_outcome() -> Status {
    Status::service_unavailable(
        "the connection to the API server broke off before it answered; \
         it may or may not have carried out the request",
    )
}

/// Says what went wrong, as a Status.
pub(super) async fn failed(
    session: &mut Session,
    ctx: &mut RequestContext,
    error: &Error,
) -> FailToProxy {
    let no_answer = FailToProxy {
        error_code: 0,
        can_reuse_downstream: false,
    };
    if answered(session) {
        if ctx.forward.asked.is_some() && error.etype() == &ErrorType::WriteTimedout {
            ctx.front.limits.too_slow(pace::FORWARDED_ANSWER);
            Finished::new(session, ctx).aborted();
        }
        tracing::warn!(%error, "answer broke off");
        return no_answer;
    }
    let status = match error.esource() {
        ErrorSource::Downstream => {
            tracing::debug!(%error, "client went away");
            return no_answer;
        }
        _ if ctx.route.is_some() => {
            tracing::warn!(%error, "request could not be forwarded to a backend");
            let answer = aggregate::failed(error);
            return say(session, ctx, answer).await;
        }
        _ if ctx.forward.outcome_unknown && !is_read(&session.req_header().method) => {
            unknown_outcome()
        }
        _ => status(error),
    };
    tracing::warn!(%error, code = status.code, "request could not be forwarded");
    let answer = Answer::from_status(&status, &session.req_header().headers, &ctx.query);
    say(session, ctx, answer).await
}

async fn say(session: &mut Session, ctx: &mut RequestContext, answer: Answer) -> FailToProxy {
    ctx.code = answer.status.as_u16();
    ctx.audit_answer(&answer);
    session.set_keepalive(None);
    match respond::send(session, answer, ctx).await {
        Ok(bytes) => ctx.response_bytes = bytes,
        Err(error) => tracing::debug!(%error, "error answer not sent"),
    }
    FailToProxy {
        error_code: ctx.code,
        can_reuse_downstream: false,
    }
}

fn status(error: &Error) -> Status {
    match error.etype() {
        ErrorType::InvalidHTTPHeader if error.esource() != &ErrorSource::Upstream => {
            Status::bad_request("the request cannot be forwarded: malformed header")
        }
        ErrorType::HTTPStatus(code) => {
            let text = StatusCode::from_u16(*code)
                .ok()
                .and_then(|c| c.canonical_reason())
                .unwrap_or("request failed");
            Status::failure(*code, crate::api::Reason::Unknown, text)
        }
        ErrorType::InternalError => Status::internal_error("the request could not be forwarded"),
        _ => unreachable(),
    }
}
