//! Sends the answers that apifront makes itself.
//!
//! A request gives its seat back when its answer is ready. After that, there is a
//! limit on the time of a client that reads slowly (`slow_client.rs`), and on the
//! bytes that wait for it (`crate::flow`).

use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http::header::EXPECT;
use pingora_core::{Error, ErrorType, Result};
use pingora_proxy::Session;
use tokio::time::{Instant, timeout};

use super::answer::Answer;
use super::body_chunks::BodyChunks;
use super::head::{self, Kind};
use super::wire_head;
use crate::flow::HeldBytes;
use crate::server::listener::slow_client::{self, WRITE_TIMEOUT};
use crate::server::stage::access_log::Finished;
use crate::server::stage::context::RequestContext;
use crate::server::stage::seats;

/// The limits, in bytes and time, for reading a request body that nobody needs, so
/// that its connection can be reused. Go's server reads as much. A client that sends
/// more, or slowly, gets its answer, and its connection is closed.
const MAX_DRAINED: usize = 256 << 10;
pub(in crate::server) const DRAIN_WITHIN: Duration = Duration::from_millis(500);
const LINGER_TIMEOUT: Duration = Duration::from_millis(500);

/// The labels of `apifront_slow_clients_total`.
const SLOW_READER: &str = "answer";
const TOO_MANY_WAIT: &str = "answer_budget";

/// Sends an answer, and notes it.
pub(in crate::server) async fn send(
    session: &mut Session,
    mut answer: Answer,
    ctx: &mut RequestContext,
) -> Result<()> {
    seats::give_back(&mut ctx.guards.in_flight);
    if !answer.classified {
        ctx.classification = None;
    }
    ctx.reply.cache = answer.cache;
    let request = session.req_header();
    let mut head = answer.take_head();
    head::finish(Kind::Whole, &mut head, request, ctx).await;
    if let Some(trail) = &mut ctx.audit {
        answer.show(trail);
    }
    let header = wire_head::for_client(head, request.version)?;
    let length = answer.length();
    // To a client that waits for a 100, an answer means not to send the body. Then
    // the connection is not reused.
    let waits = waits_for_100(session);
    if waits || !drain_little(session).await {
        session.set_keepalive(None);
    }
    let head_only = session.req_header().method == http::Method::HEAD || length == 0;
    session.set_write_timeout(Some(WRITE_TIMEOUT));
    session
        .write_response_header(Box::new(header), head_only)
        .await
        .map_err(Error::into_down)?;
    if head_only {
        return Ok(());
    }
    if let Err(slow) = write(session, answer.body, answer.held, ctx).await? {
        ctx.generation().flow.too_slow(slow);
        Finished::new(session.req_header(), ctx).aborted();
        let error = Error::explain(ErrorType::WriteTimedout, slow);
        return Err(error.into_down());
    }
    if !waits {
        // If the connection closed while the client still sends, the client would
        // lose the answer.
        drain(session, usize::MAX, LINGER_TIMEOUT).await;
    }
    ctx.reply.bytes = length;
    Ok(())
}

/// Tells whether the client sends its body only after a 100. HTTP/1.0 has no 100
/// (RFC 9110, 10.1.1).
pub(in crate::server) fn waits_for_100(session: &mut Session) -> bool {
    let request = session.req_header();
    request.version == Version::HTTP_11
        && request.headers.get(EXPECT).is_some_and(|e| !e.is_empty())
        && !session.as_mut().is_body_empty()
}

/// Writes as fast as the client reads, and gives up if the client is too slow.
/// `Ok(Err)` holds the reason for giving up.
async fn write(
    session: &mut Session,
    body: Vec<Bytes>,
    held: HeldBytes,
    ctx: &RequestContext,
) -> Result<std::result::Result<(), &'static str>> {
    let user = ctx.stage().identified().and_then(|i| i.user());
    let began = Instant::now();
    let mut chunks = BodyChunks::new(body);
    let mut written = 0usize;
    // If the answer's bytes are already accounted for, it may wait for its client.
    let mut held = Some(held).filter(HeldBytes::counts);
    while let Some(piece) = chunks.next() {
        written = written.saturating_add(piece.len());
        let last = chunks.is_done();
        let mut write = std::pin::pin!(session.write_response_body(Some(piece), last));
        if held.is_none() {
            match timeout(seats::PIECE_TIMEOUT, &mut write).await {
                Ok(done) => {
                    done.map_err(Error::into_down)?;
                    continue;
                }
                // From here on, the answer waits for its client.
                Err(_) => held = ctx.generation().flow.hold_waiting(user),
            }
            if held.is_none() {
                return Ok(Err(TOO_MANY_WAIT));
            }
        }
        let left = slow_client::allowed(written).saturating_sub(began.elapsed());
        match timeout(left, write).await {
            Ok(Err(e)) if *e.etype() == ErrorType::WriteTimedout => return Ok(Err(SLOW_READER)),
            Ok(done) => done.map_err(Error::into_down)?,
            Err(_) => return Ok(Err(SLOW_READER)),
        }
    }
    Ok(Ok(()))
}

/// Drains a short body. Returns false if the body is long or slow.
pub(in crate::server) async fn drain_little(session: &mut Session) -> bool {
    drain(session, MAX_DRAINED, DRAIN_WITHIN).await
}

/// Reads the rest of a request's body, which would otherwise be taken for the next
/// request. Returns true if all of it was read.
async fn drain(session: &mut Session, most: usize, within: Duration) -> bool {
    let session = session.as_mut();
    let read = async {
        let mut bytes = 0usize;
        while !session.is_body_done() {
            match session.read_request_body().await {
                Ok(Some(piece)) if bytes < most => bytes = bytes.saturating_add(piece.len()),
                Ok(None) => return true,
                Ok(Some(_)) | Err(_) => return false,
            }
        }
        true
    };
    tokio::time::timeout(within, read).await.unwrap_or(false)
}
