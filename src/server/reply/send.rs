//! Sends the answers that apifront makes itself.
//!
//! A request gives its seat back when its answer is ready. After that, there is a
//! limit on the time of a client that reads slowly (`slow_client.rs`), and on the
//! bytes that wait for it (`crate::flow`).

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};

use super::answer::Answer;
use super::body_chunks::BodyChunks;
use super::head::{self, Kind};
use crate::flow::HeldBytes;
use crate::server::exchange::{Exchange, Failure};
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
    exchange: &mut Exchange<'_>,
    mut answer: Answer,
    ctx: &mut RequestContext,
) -> Result<(), Failure> {
    seats::give_back(&mut ctx.guards.in_flight);
    if !answer.classified {
        ctx.classification = None;
    }
    ctx.reply.cache = answer.cache;
    let request = exchange.request();
    let mut head = answer.take_head();
    head::finish(Kind::Whole, &mut head, request, ctx).await;
    if let Some(trail) = &mut ctx.audit {
        answer.show(trail);
    }
    let length = answer.length();
    // To a client that waits for a 100, an answer means not to send the body. Then
    // the connection is not reused.
    let waits = exchange.waits_for_100();
    if waits || !drain_little(exchange).await {
        exchange.close_http1_after();
    }
    let head_only = exchange.request().method == http::Method::HEAD || length == 0;
    exchange.set_write_timeout(WRITE_TIMEOUT);
    exchange.write_head(head, head_only).await?;
    if head_only {
        return Ok(());
    }
    if let Err(slow) = write(exchange, answer.body, answer.held, ctx).await? {
        ctx.generation().flow.too_slow(slow);
        Finished::new(exchange.request(), ctx).aborted();
        return Err(Failure::too_slow(slow));
    }
    if !waits {
        // If the connection closed while the client still sends, the client would
        // lose the answer.
        exchange.drain(usize::MAX, LINGER_TIMEOUT).await;
    }
    ctx.reply.bytes = length;
    Ok(())
}

/// Writes as fast as the client reads, and gives up if the client is too slow.
/// `Ok(Err)` holds the reason for giving up.
async fn write(
    exchange: &mut Exchange<'_>,
    body: Vec<Bytes>,
    held: HeldBytes,
    ctx: &RequestContext,
) -> Result<Result<(), &'static str>, Failure> {
    let user = ctx.stage().identified().and_then(|i| i.user());
    let began = Instant::now();
    let mut chunks = BodyChunks::new(body);
    let mut written = 0usize;
    // If the answer's bytes are already accounted for, it may wait for its client.
    let mut held = Some(held).filter(HeldBytes::counts);
    while let Some(piece) = chunks.next() {
        written = written.saturating_add(piece.len());
        let last = chunks.is_done();
        let mut write = std::pin::pin!(exchange.write_body(piece, last));
        if held.is_none() {
            match timeout(seats::PIECE_TIMEOUT, &mut write).await {
                Ok(done) => {
                    done?;
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
            Ok(Err(failure)) if failure.is_write_timeout() => return Ok(Err(SLOW_READER)),
            Ok(done) => done?,
            Err(_) => return Ok(Err(SLOW_READER)),
        }
    }
    Ok(Ok(()))
}

/// Drains a short body. Returns false if the body is long or slow.
async fn drain_little(exchange: &mut Exchange<'_>) -> bool {
    exchange.drain(MAX_DRAINED, DRAIN_WITHIN).await
}
