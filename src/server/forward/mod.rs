//! Forwards requests to API servers.

pub(super) mod aggregate;
mod aggregator_request;
pub(super) mod record_write;
pub(super) mod stream;
pub(super) mod upgrade;
mod upload;
mod watch_frames;

use std::time::Instant;

use apifront_upstream::cdn_loop::{self, CDN_LOOP};
use apifront_upstream::{LARGE_HEAD, Purpose, Unreachable, field_size, head_size};
use http::header::{EXPECT, HOST};
use http::{Method, StatusCode, request, response};
use kubernetes_wire::api::{Query, Status, UserInfo};
use kubernetes_wire::request::Upgrade;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorSource, ErrorType, Result};
use pingora_http::RequestHeader;
use pingora_proxy::{FailToProxy, Session};

use crate::aggregation::InFlight;
use crate::audit::Trail;
use crate::flow::Admitted;
use crate::identity;
use crate::server::listener::slow_client::{self, WRITE_TIMEOUT};
use crate::server::reply::answer::Answer;
use crate::server::reply::{refusal, send};
use crate::server::stage::access_log::Finished;
use crate::server::stage::context::RequestContext;
use crate::server::stage::forwarded::{Authority, Forward};
use crate::server::stage::{AUDIT_ID, seats};
use crate::spans::RequestSpan;

/// kube-apiserver's audit log takes its source addresses from this header.
const X_FORWARDED_FOR: &str = "x-forwarded-for";

const SWITCHED: ErrorType = ErrorType::Custom("unasked switch of protocols");

pub(in crate::server) fn begin(
    request: &request::Parts,
    ctx: &mut RequestContext,
    authority: Authority,
    backend: Option<InFlight>,
) {
    let mut forward = Forward::new(authority);
    forward.replays = ctx.replays;
    if forward.long_running {
        ctx.guards.long_running = Finished::new(request, ctx).long_running();
    }
    ctx.guards.backend = backend;
    ctx.forward = Some(forward);
}

/// Returns the error of a phase that only forwarded requests can reach.
pub(in crate::server) fn not_forwarded<T>() -> Result<T> {
    Error::e_explain(ErrorType::InternalError, "not a forwarded request")
}

/// Sends the 100 to a client that waits for it before it sends its body, because
/// upstream's own 100 does not come through HTTP/2. From here on, the client must
/// keep pace.
pub(in crate::server) async fn go_on(session: &mut Session, ctx: &RequestContext) -> Result<()> {
    let Some(forward) = &ctx.forward else {
        return not_forwarded();
    };
    tell_to_go_on(session).await?;
    session.set_write_timeout(Some(WRITE_TIMEOUT));
    let session = session.as_mut();
    session.set_total_drain_timeout(Some(send::DRAIN_WITHIN));
    if !forward.long_running && !session.is_body_empty() {
        slow_client::body_begins();
    }
    Ok(())
}

/// Sends a 100 to a client that waits for it. pingora takes every answer before the
/// end of the body for the last one of its connection, even this one. So the
/// keepalive setting is restored.
pub(super) async fn tell_to_go_on(session: &mut Session) -> Result<()> {
    if send::waits_for_100(session) {
        let session = session.as_mut();
        let keepalive = session.get_keepalive();
        session.write_continue_response().await?;
        session.set_keepalive(keepalive);
    }
    Ok(())
}

/// Sees the head of an answer that pingora passes on, as upstream wrote it. Refuses
/// answers that are not for clients.
pub(in crate::server) fn answer_arrived(
    head: &response::Parts,
    ctx: &mut RequestContext,
) -> Result<()> {
    refuse_switch(head.status)?;
    if let Some(observer) = &mut ctx.observer {
        observer.answered(head.status, &head.headers);
    }
    if let Some(forward) = &mut ctx.forward {
        forward.answered = Some(Instant::now());
        answer_begins(head.status, forward, &mut ctx.guards.in_flight);
        aggregate::answered(head, forward)?;
    }
    if let Some(span) = &mut ctx.span {
        span.answered(head.status.as_u16());
    }
    Ok(())
}

/// Gives the seat back. Upstream has made the answer, or makes it as fast as the
/// client reads.
fn answer_begins(status: StatusCode, forward: &Forward, in_flight: &mut Admitted) {
    if status.is_informational() || forward.long_running {
        return;
    }
    slow_client::answer_begins();
    let limits = &forward.generation().flow;
    limits.answer_begins(in_flight, forward.user());
}

/// Picks the next API server to try.
pub(in crate::server) async fn peer(
    session: &mut Session,
    forward: &mut Forward,
) -> Result<Box<HttpPeer>> {
    let Some(endpoint) = forward.upstream.pick(&forward.tried) else {
        return Error::e_explain(ErrorType::ConnectError, "no API server left to try");
    };
    forward.asked.get_or_insert_with(Instant::now);
    forward.tried.push(endpoint.clone());
    let address = endpoint.address().await.map_err(|error| {
        let why = Unreachable::by_io(&error);
        forward.upstream.could_not_connect(&endpoint, why);
        let mut failed = Error::because(ErrorType::ConnectError, "cannot look up", error);
        failed.set_retry(true);
        failed
    })?;
    let purpose = if forward.long_running {
        // A watch may be silent for any length of time.
        session.set_read_timeout(None);
        Purpose::LongRunning
    } else if forward.replays || sent_head(session.req_header(), forward.user()) > LARGE_HEAD {
        // Over HTTP/2, pingora would lose an answer that comes before a body that
        // was already read.
        Purpose::Alone
    } else {
        Purpose::Short
    };
    let mut peer = endpoint.forward.peer(address, purpose);
    if let Some(timeout) = aggregate::timeout(forward) {
        peer.options.read_timeout = Some(timeout);
    }
    Ok(Box::new(peer))
}

/// Returns the approximate size of the head that will be sent, including fields that
/// may name the caller.
fn sent_head(request: &RequestHeader, user: Option<&UserInfo>) -> usize {
    const PREFIX_BYTES: usize = "x-remote-extra-".len();
    let named = |user: &UserInfo| {
        let groups = user
            .groups
            .iter()
            .map(|group| field_size(PREFIX_BYTES, group.len()));
        let extra = user.extra.iter().flat_map(|(key, values)| {
            // Every octet of a key may become an escape.
            let name = key.len().saturating_mul(3).saturating_add(PREFIX_BYTES);
            values
                .iter()
                .map(move |value| field_size(name, value.len()))
        });
        groups.chain(extra).fold(0, usize::saturating_add)
    };
    let target = request.raw_path().len();
    head_size(target, &request.headers).saturating_add(user.map_or(0, named))
}

/// Replaces the caller's credentials by headers that tell upstream the caller's
/// identity.
pub(in crate::server) async fn rewrite(
    request: &mut RequestHeader,
    forward: &Forward,
    trail: Option<&mut Trail>,
    mut span: Option<&mut RequestSpan>,
) -> Result<()> {
    let Some(endpoint) = forward.tried.last() else {
        return Error::e_explain(ErrorType::InternalError, "no API server chosen");
    };
    let own = endpoint
        .forward
        .headers
        .headers(forward.identity())
        .await
        .map_err(|error| {
            Error::because(
                ErrorType::InternalError,
                "no credentials for upstream",
                error,
            )
        })?;
    if let Some(trail) = trail {
        trail.request_begins();
    }
    // The client has already been told to send its body.
    request.remove_header(&EXPECT);
    aggregator_request::rewrite(request, forward)?;
    introduce(request, forward, span.as_deref_mut())?;
    if let Some(span) = span {
        span.asked(&endpoint.name);
    }
    for (name, value) in &own {
        request.append_header(name, value)?;
    }
    request.insert_header(HOST, endpoint.name.as_str())
}

/// Refuses an answer that changes the protocol, because pingora forwards no request
/// that asks for that.
fn refuse_switch(status: StatusCode) -> Result<()> {
    match status {
        StatusCode::SWITCHING_PROTOCOLS => {
            Error::e_explain(SWITCHED, "it switched protocols unasked")
        }
        _ => Ok(()),
    }
}

/// Removes the headers in which the caller claims an identity. Adds those that tell
/// the caller's identity and address, the request and its trace, and the apifronts
/// on the way. Every request to upstream passes here, whether pingora or `stream.rs`
/// sends it.
pub(in crate::server) fn introduce(
    request: &mut RequestHeader,
    forward: &Forward,
    span: Option<&mut RequestSpan>,
) -> Result<()> {
    let front_proxy = forward.generation().gate.front_proxy();
    let changes = identity::changes(&request.headers, forward.connection(), front_proxy);
    for (name, value) in changes {
        request.remove_header(&name);
        if let Some(value) = value {
            request.append_header(name, value)?;
        }
    }
    let upgrade = forward.upgrade().into_iter();
    for (name, value) in upgrade.flat_map(Upgrade::fields) {
        request.append_header(name, value)?;
    }
    for (name, value) in forward.identity() {
        request.append_header(name, value)?;
    }
    // Without a span, the headers of the caller's trace stay as they are.
    let trace = span.map(|span| span.ask(&request.method));
    for (name, value) in trace.into_iter().flatten() {
        request.remove_header(&name);
        if let Some(value) = value {
            request.insert_header(name, value)?;
        }
    }
    request.insert_header(AUDIT_ID, forward.audit_id())?;
    request.append_header(CDN_LOOP, cdn_loop::entry())?;
    if let Some(address) = forward.client() {
        let mut way: Vec<&str> = Vec::new();
        let before = request.headers.get_all(X_FORWARDED_FOR).iter();
        way.extend(before.filter_map(|value| value.to_str().ok()));
        let address = address.to_string();
        way.push(&address);
        // The header is a single line, as Go's proxies write it.
        let way = way.join(", ");
        request.insert_header(X_FORWARDED_FOR, way)?;
    }
    Ok(())
}

/// Lets the request try the next server. Nothing was sent on a connection that
/// failed, so any request may be tried again.
pub(in crate::server) fn could_not_connect(
    forward: Option<&Forward>,
    mut error: Box<Error>,
) -> Box<Error> {
    if let Some(forward) = forward
        && let Some(endpoint) = forward.tried.last()
    {
        let why = Unreachable::by_pingora(&error);
        forward.upstream.could_not_connect(endpoint, why);
        tracing::warn!(server = %endpoint.name, %error, "cannot connect to the API server");
    }
    error.set_retry(true);
    error
}

/// Decides whether to repeat a request whose connection broke after it was perhaps
/// sent. Reads are repeated, and requests that upstream did not process. Reviews
/// whose bodies were read are repeated, too, because they have no effect. Any other
/// request may have had its effect.
pub(in crate::server) fn broke_off(
    session: &Session,
    forward: Option<&mut Forward>,
    mut error: Box<Error>,
    client_reused: bool,
) -> Box<Error> {
    let upstreams = error.esource() == &ErrorSource::Upstream;
    let processed = !is_unprocessed(&error);
    let is_review = forward.as_ref().is_some_and(|forward| forward.replays);
    let repeatable = upstreams
        && !answered(session)
        && !session.as_ref().retry_buffer_truncated()
        && (!processed || is_read(&session.req_header().method) || is_review);
    if let Some(forward) = forward {
        if repeatable && (client_reused || !processed) {
            // That the server wanted to close the connection is no fault of the
            // server.
            forward.tried.pop();
        }
        forward.outcome_unknown = upstreams && processed && !repeatable;
    }
    error.set_retry(repeatable);
    error
}

/// Tells whether upstream itself says that it did not process the request (RFC 9113,
/// 6.8 and 8.7). API servers with `--goaway-chance` say so now and then.
fn is_unprocessed(error: &Error) -> bool {
    let cause = error.root_cause().downcast_ref::<h2::Error>();
    cause.is_some_and(apifront_upstream::is_unprocessed)
}

/// Tells whether the client has an answer. A 100 does not count.
fn answered(session: &Session) -> bool {
    let written = session.as_ref().response_written();
    written.is_some_and(|header| !header.status.is_informational())
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// Returns the 503 for a request that the API server may have carried out. It has no
/// Retry-After, because client-go repeats any request, even a write, after a 5xx
/// with one.
pub(in crate::server) fn unknown_outcome() -> Status {
    Status::service_unavailable(
        "the connection to the API server broke off before it answered; \
         it may or may not have carried out the request",
    )
}

/// Returns the 502 for a request whose answer changed the protocol unasked. Upstream
/// may have carried out the request.
pub(in crate::server) fn switched() -> Status {
    let why = "the API server switched protocols, which was not asked of it";
    Status::failure(502, kubernetes_wire::api::Reason::Unknown, why)
}

/// Answers a request that could not be forwarded.
pub(in crate::server) async fn failed(
    session: &mut Session,
    ctx: &mut RequestContext,
    error: &Error,
) -> FailToProxy {
    if let Some(forward) = &ctx.forward
        && let Some(endpoint) = forward.tried.last()
    {
        endpoint.forward.gave_up();
        if error.esource() == &ErrorSource::Downstream {
            seats::give_back_later(&mut ctx.guards.in_flight);
        }
    }
    let no_answer = FailToProxy {
        error_code: 0,
        can_reuse_downstream: false,
    };
    if answered(session) {
        let forwarded = ctx.forward.as_ref().is_some_and(|f| f.asked.is_some());
        if forwarded && error.etype() == &ErrorType::WriteTimedout {
            ctx.generation()
                .flow
                .too_slow(slow_client::FORWARDED_ANSWER);
            Finished::new(session.req_header(), ctx).aborted();
        }
        match error.esource() {
            // Clients may leave at any time. This must not fill the log.
            ErrorSource::Downstream => tracing::debug!(%error, "client left its answer"),
            _ => tracing::warn!(%error, "answer broke off"),
        }
        return no_answer;
    }
    let status = match error.esource() {
        ErrorSource::Downstream => {
            tracing::debug!(%error, "client went away");
            return no_answer;
        }
        _ if ctx.is_routed() => {
            tracing::warn!(%error, "request could not be forwarded to a backend");
            let answer = aggregate::failed(error);
            return say(session, ctx, answer).await;
        }
        _ if is_outcome_unknown(ctx) && !is_read(&session.req_header().method) => unknown_outcome(),
        _ => status(error),
    };
    tracing::warn!(%error, code = status.code, "request could not be forwarded");
    let nothing = Query::default();
    let query = ctx.query().unwrap_or(&nothing);
    let answer = Answer::from_status(&status, &session.req_header().headers, query);
    say(session, ctx, answer).await
}

fn is_outcome_unknown(ctx: &RequestContext) -> bool {
    let forward = ctx.forward.as_ref();
    forward.is_some_and(|forward| forward.outcome_unknown)
}

async fn say(session: &mut Session, ctx: &mut RequestContext, answer: Answer) -> FailToProxy {
    session.set_keepalive(None);
    let answer = answer.out_of(ctx.reply.cache);
    if let Err(error) = send::send(session, answer, ctx).await {
        tracing::debug!(%error, "error answer not sent");
    }
    FailToProxy {
        error_code: ctx.reply.code,
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
            Status::failure(*code, kubernetes_wire::api::Reason::Unknown, text)
        }
        &SWITCHED => switched(),
        ErrorType::InternalError => Status::internal_error("the request could not be forwarded"),
        _ => refusal::unreachable(),
    }
}
