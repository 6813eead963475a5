//! The client of a watch: writes to it, and notices when it hangs up.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::SendStream;
use pingora_core::ErrorType::WriteTimedout;
use pingora_core::protocols::http::ServerSession;
use tokio::time::timeout;

use super::watch_stream::StreamEnd;
use crate::server::listener::slow_client::WRITE_TIMEOUT;

pub(super) enum Client {
    /// A connection, which may go on to its next request.
    Http1(Box<ServerSession>),
    /// A stream of a connection. The rest of pingora's session, such as the
    /// request's headers, is not needed any more.
    Http2(SendStream<Bytes>),
}

impl Client {
    /// Takes the stream out of the session of a request whose answer has begun. The
    /// session has a timeout for writes.
    pub(super) fn new(mut session: ServerSession) -> Self {
        if let ServerSession::H2(http2) = &mut session
            && let Some(stream) = http2.take_response_body_writer()
        {
            return Self::Http2(stream);
        }
        Self::Http1(Box::new(session))
    }

    pub(super) async fn write(&mut self, frames: Bytes) -> Result<(), StreamEnd> {
        match self {
            Self::Http1(session) => {
                let written = session.write_response_body(frames, false).await;
                written.map_err(|error| match error.etype() {
                    WriteTimedout => StreamEnd::TooSlow,
                    _ => StreamEnd::ClientGone,
                })
            }
            Self::Http2(stream) => match timeout(WRITE_TIMEOUT, write(stream, frames)).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(_)) => Err(StreamEnd::ClientGone),
                Err(_) => Err(StreamEnd::TooSlow),
            },
        }
    }

    /// Writes all frames if there is room for them at once. Otherwise returns
    /// `None`.
    pub(super) fn write_at_once(&mut self, frames: &[Bytes]) -> Option<Result<(), h2::Error>> {
        let Self::Http2(stream) = self else {
            return None;
        };
        let bytes = frames.iter().map(Bytes::len).sum();
        stream.reserve_capacity(bytes);
        if stream.capacity() < bytes {
            return None;
        }
        let mut frames = frames.iter().cloned();
        Some(frames.try_for_each(|frame| stream.send_data(frame, false)))
    }

    /// Returns when the client hangs up. The client of a watch sends nothing more.
    pub(super) async fn gone(&mut self) {
        match self {
            Self::Http1(session) => {
                let _ = session.read_body_or_idle(true).await;
            }
            Self::Http2(stream) => {
                let _ = poll_fn(|cx| stream.poll_reset(cx)).await;
            }
        }
    }

    pub(super) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Http1(_) => Poll::Pending,
            Self::Http2(stream) => stream.poll_reset(cx).map(drop),
        }
    }

    /// Ends the answer in order.
    pub(super) async fn finish(&mut self) -> Result<(), ()> {
        match self {
            Self::Http1(session) => {
                let written = session.write_response_body(Bytes::new(), true).await;
                written.map_err(drop)
            }
            Self::Http2(stream) => stream.send_data(Bytes::new(), true).map_err(drop),
        }
    }
}

struct Gone;

impl From<h2::Error> for Gone {
    fn from(_: h2::Error) -> Self {
        Self
    }
}

/// Writes to a stream as its client makes room.
async fn write(stream: &mut SendStream<Bytes>, mut rest: Bytes) -> Result<(), Gone> {
    while !rest.is_empty() {
        stream.reserve_capacity(rest.len());
        let room = stream.capacity().min(rest.len());
        if room > 0 {
            stream.send_data(rest.split_to(room), false)?;
            continue;
        }
        // This may resolve for room that has already been used.
        match poll_fn(|cx| stream.poll_capacity(cx)).await {
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return Err(Gone),
        }
    }
    Ok(())
}
