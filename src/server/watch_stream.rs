//! Writing a watch to its client, in a task of its own.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, TRANSFER_ENCODING, WARNING};
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use parking_lot::Mutex;
use pingora_core::ErrorType::WriteTimedout;
use pingora_core::Result;
use pingora_core::protocols::http::ServerSession;
use pingora_http::ResponseHeader;
use pingora_proxy::Session;
use tokio::sync::watch::Receiver;

use super::context::RequestContext;
use super::detached::take_session;
use super::record::Finished;
use super::respond::common_headers;
use super::seats;
use super::stream::WRITE_TIMEOUT;
use crate::watch::Watch;

/// How a watch's connection came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    /// The watch itself says why.
    Watch(crate::watch::WatchEnd),
    ClientGone,
    /// The client took longer for a batch than it may.
    TooSlow,
    ShuttingDown,
}

impl StreamEnd {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Watch(end) => end.as_str(),
            Self::ClientGone => "client_gone",
            Self::TooSlow => "too_slow",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

/// Writes batches until the watch, the client or apifront ends, and ends the
/// stream in order where there is still somebody to tell. `sent` hears of each
/// batch, its bytes and events, and whether all initial events are out; `waits`
/// of each that the client lets wait.
pub(super) async fn run(
    session: &mut ServerSession,
    watch: &mut Watch,
    stopping: &mut Receiver<bool>,
    mut sent: impl FnMut(usize, usize, bool),
    waits: impl Fn(),
) -> StreamEnd {
    // Waits through all batches: to begin anew with each would cost more than
    // the batch.
    let stopped = stopping.wait_for(|stop| *stop);
    tokio::pin!(stopped);
    let end = loop {
        let batch = tokio::select! {
            biased;
            _ = &mut stopped => break StreamEnd::ShuttingDown,
            // Resolves when the client hangs up; it has nothing more to say.
            _ = session.read_body_or_idle(true) => break StreamEnd::ClientGone,
            batch = watch.next() => batch,
        };
        match batch {
            Ok((frames, events)) => {
                sent(frames.len(), events, watch.has_begun());
                match seats::write(session.write_response_body(frames, false), &waits).await {
                    Ok(()) => {}
                    Err(e) if *e.etype() == WriteTimedout => break StreamEnd::TooSlow,
                    Err(_) => break StreamEnd::ClientGone,
                }
            }
            Err(end) => break StreamEnd::Watch(end),
        }
    };
    if !matches!(end, StreamEnd::ClientGone | StreamEnd::TooSlow)
        && session
            .write_response_body(Bytes::new(), true)
            .await
            .is_err()
    {
        return StreamEnd::ClientGone;
    }
    end
}

/// Sends the header and hands the stream to a task of its own.
pub(super) async fn start(
    session: &mut Session,
    ctx: &mut RequestContext,
    mut watch: Watch,
    warnings: &[HeaderValue],
) -> Result<()> {
    ctx.code = 200;
    let http11 = session.req_header().version == Version::HTTP_11;
    let mut header = ResponseHeader::build(StatusCode::OK, Some(5))?;
    header.insert_header(CONTENT_TYPE, watch.content_type())?;
    if http11 {
        header.insert_header(TRANSFER_ENCODING, "chunked")?;
    }
    for warning in warnings {
        header.append_header(WARNING, warning)?;
    }
    common_headers(&mut header, session.req_header(), ctx)?;
    session.set_write_timeout(Some(WRITE_TIMEOUT));
    session
        .write_response_header(Box::new(header), false)
        .await?;

    let mut initial = !watch.has_begun();
    let mut finished = Finished::new(session, ctx);
    let watching = finished.watching();
    let mut guards = std::mem::take(&mut ctx.guards);
    let seat = Mutex::new(std::mem::take(&mut guards.in_flight));
    if !initial {
        seats::give_back(&mut seat.lock());
    }
    let mut stopping = ctx.front.drain.stopping();
    let mut taken = take_session(session);
    let mut trail = ctx.audit.take();
    if let Some(trail) = &mut trail {
        trail.response(ctx.code, &HeaderMap::new());
    }
    ctx.detached = true;
    tokio::spawn(async move {
        let mut bytes = 0;
        let end = run(
            &mut taken,
            &mut watch,
            &mut stopping,
            |sent, events, begun| {
                bytes += sent;
                watching.sent(sent, events);
                if begun && std::mem::take(&mut initial) {
                    watching.initial_events_sent();
                    seats::give_back(&mut seat.lock());
                }
            },
            || seats::give_back(&mut seat.lock()),
        )
        .await;
        watching.ended(end.as_str());
        finished.ended(end.as_str());
        finished.record(bytes);
        // An HTTP/1 connection ends with its watch: pingora has let go of it.
        taken.shutdown().await;
        // The process may end when nothing is open any more.
        drop(trail);
        drop(guards);
    });
    Ok(())
}
