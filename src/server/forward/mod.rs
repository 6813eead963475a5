//! Forwards requests to API servers.

pub(super) mod aggregate;
mod aggregator_request;
pub(super) mod attempts;
pub(super) mod failed;
pub(super) mod record_write;
pub(super) mod request_head;
pub(super) mod stream;
pub(super) mod upgrade;
mod upload;
mod watch_frames;

use std::time::Instant;

use http::{StatusCode, request, response};
use kubernetes_wire::api::{Reason, Status};

use crate::aggregation::InFlight;
use crate::flow::Admitted;
use crate::server::exchange::{Exchange, Failure};
use crate::server::listener::slow_client::{self, WRITE_TIMEOUT};
use crate::server::reply::send;
use crate::server::stage::access_log::Finished;
use crate::server::stage::context::RequestContext;
use crate::server::stage::forwarded::{Authority, Forward};

/// The reason why an answer is not for clients.
pub(in crate::server) enum AnswerRefusal {
    /// It changes the protocol. pingora forwards no request that asks for that.
    Switched,
    /// It is a backend's redirect.
    Redirect,
}

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

/// Makes the failure of a phase that only forwarded requests can reach.
pub(in crate::server) fn not_forwarded() -> Failure {
    Failure::internal("not a forwarded request")
}

/// Sends the 100 to a client that waits for it before it sends its body, because
/// upstream's own 100 does not come through HTTP/2. From here on, the client must
/// keep pace.
pub(in crate::server) async fn go_on(
    exchange: &mut Exchange<'_>,
    ctx: &RequestContext,
) -> Result<(), Failure> {
    let Some(forward) = &ctx.forward else {
        return Err(not_forwarded());
    };
    exchange.tell_to_go_on().await?;
    exchange.set_write_timeout(WRITE_TIMEOUT);
    exchange.drain_within(send::DRAIN_WITHIN);
    if !forward.long_running && exchange.has_body() {
        slow_client::body_begins();
    }
    Ok(())
}

/// Sees the head of an answer that pingora passes on, as upstream wrote it. Refuses
/// answers that are not for clients.
pub(in crate::server) fn answer_arrived(
    head: &response::Parts,
    ctx: &mut RequestContext,
) -> Result<(), AnswerRefusal> {
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(AnswerRefusal::Switched);
    }
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
    Status::failure(502, Reason::Unknown, why)
}
