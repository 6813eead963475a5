//! The attempts to forward a request through pingora: which API server is tried, and
//! whether another attempt follows a failed one.

use std::time::Instant;

use apifront_upstream::{LARGE_HEAD, Purpose, Unreachable};
use http::Method;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorSource, ErrorType, Result};

use super::{aggregate, request_head};
use crate::server::exchange::Exchange;
use crate::server::stage::forwarded::Forward;

/// Picks the next API server to try.
pub(in crate::server) async fn peer(
    exchange: &mut Exchange<'_>,
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
        exchange.wait_without_limit();
        Purpose::LongRunning
    } else if forward.replays || request_head::sent_bytes(exchange, forward.user()) > LARGE_HEAD {
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
    exchange: &Exchange<'_>,
    forward: Option<&mut Forward>,
    mut error: Box<Error>,
    client_reused: bool,
) -> Box<Error> {
    let upstreams = error.esource() == &ErrorSource::Upstream;
    let processed = !is_unprocessed(&error);
    let is_review = forward.as_ref().is_some_and(|forward| forward.replays);
    let repeatable = upstreams
        && !exchange.is_answered()
        && !exchange.has_lost_body()
        && (!processed || is_read(&exchange.request().method) || is_review);
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

pub(super) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}
