//! Writes a watch to its client, in a task of its own.

use apifront_watch_cache::watch::Watch;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, TRANSFER_ENCODING, VARY, WARNING};
use http::{HeaderValue, StatusCode, Version};
use pingora_core::ErrorType::WriteTimedout;
use pingora_core::protocols::http::ServerSession;
use pingora_core::{Error, Result};
use pingora_http::ResponseHeader;
use pingora_proxy::Session;
use tokio::sync::watch::Receiver;

use super::detached::{Detached, Ending, detach};
use super::respond::common_headers;
use crate::server::listener::slow_client::WRITE_TIMEOUT;
use crate::server::stage::context::RequestContext;
use crate::server::stage::seats;

/// The end of a watch's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum StreamEnd {
    /// The watch itself ended, for this reason.
    Watch(apifront_watch_cache::watch::WatchEnd),
    ClientGone,
    /// The client took too long to read a batch.
    TooSlow,
    ShuttingDown,
}

impl StreamEnd {
    pub(in crate::server) fn as_str(self) -> &'static str {
        match self {
            Self::Watch(end) => end.as_str(),
            Self::ClientGone => "client_gone",
            Self::TooSlow => "too_slow",
            Self::ShuttingDown => "shutting_down",
        }
    }
}

/// Writes batches until the watch, the client or apifront ends. Then ends the
/// stream in order, if the client is still there.
async fn run(
    session: &mut ServerSession,
    watch: &mut Watch,
    stopping: &mut Receiver<bool>,
    detached: &mut Detached,
) -> Ending {
    let may_have_stopped = stopping.clone();
    // This future lasts through all batches: a new one for each batch would
    // cost more than the batch.
    let stopped = stopping.wait_for(|stop| *stop);
    tokio::pin!(stopped);
    let end = loop {
        // A watch that always has something to send is asked for it first, so
        // that nothing else is polled for each batch.
        if may_have_stopped.has_changed().unwrap_or(true) && *may_have_stopped.borrow() {
            break StreamEnd::ShuttingDown;
        }
        let batch = tokio::select! {
            biased;
            batch = watch.next() => batch,
            _ = &mut stopped => break StreamEnd::ShuttingDown,
            // Resolves when the client hangs up. The client of a watch sends
            // nothing more.
            _ = session.read_body_or_idle(true) => break StreamEnd::ClientGone,
        };
        match batch {
            Ok((frames, events)) => {
                detached.sent(frames.len(), events, watch.has_begun());
                let write = session.write_response_body(frames, false);
                match seats::write(write, || detached.release_seats()).await {
                    Ok(()) => detached.delivered(watch.arrived()),
                    Err(e) if *e.etype() == WriteTimedout => break StreamEnd::TooSlow,
                    Err(_) => break StreamEnd::ClientGone,
                }
            }
            Err(end) => break StreamEnd::Watch(end),
        }
    };
    if matches!(end, StreamEnd::ClientGone | StreamEnd::TooSlow) {
        return Ending::broken(end.as_str());
    }
    match session.write_response_body(Bytes::new(), true).await {
        Ok(()) => Ending {
            why: end.as_str(),
            in_order: true,
        },
        Err(_) => Ending::broken(StreamEnd::ClientGone.as_str()),
    }
}

/// Sends the header, and moves the stream to a task of its own.
pub(in crate::server) async fn start(
    session: &mut Session,
    ctx: &mut RequestContext,
    mut watch: Watch,
    warnings: &[HeaderValue],
) -> Result<()> {
    ctx.reply.code = 200;
    let http11 = session.req_header().version == Version::HTTP_11;
    let mut header = ResponseHeader::build(StatusCode::OK, Some(7))?;
    header.insert_header(CONTENT_TYPE, watch.content_type())?;
    if watch.is_compressed() {
        header.insert_header(CONTENT_ENCODING, "gzip")?;
        header.insert_header(VARY, "Accept-Encoding")?;
    }
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
        .await
        .map_err(Error::into_down)?;

    let mut stopping = ctx.generation().drain.stopping();
    let (mut client, mut detached) = detach(session, ctx);
    detached.watches(ctx.reply.code, watch.has_begun());
    tokio::spawn(async move {
        let ending = run(&mut client, &mut watch, &mut stopping, &mut detached).await;
        drop(watch);
        detached.end_with(client, ending).await;
    });
    Ok(())
}
