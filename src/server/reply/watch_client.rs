//! The client of a watch: writes to it, and notices when it hangs up.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::SendStream;
use tokio::time::timeout;

use super::watch_stream::StreamEnd;
use crate::server::exchange::client_stream::ClientStream;
use crate::server::listener::slow_client::WRITE_TIMEOUT;

pub(super) enum Client {
    /// A connection, which may go on to its next request.
    Http1(Box<ClientStream>),
    /// A stream of a connection.
    Http2(SendStream<Bytes>),
}

impl Client {
    /// Makes the client of a request whose answer has begun. Writes to it have a
    /// timeout.
    pub(super) fn new(mut client: ClientStream) -> Self {
        match client.take_http2_writer() {
            Some(stream) => Self::Http2(stream),
            None => Self::Http1(Box::new(client)),
        }
    }

    pub(super) async fn write(&mut self, frames: Bytes) -> Result<(), StreamEnd> {
        match self {
            Self::Http1(client) => {
                let written = client.write(frames).await;
                written.map_err(|failure| match failure.is_write_timeout() {
                    true => StreamEnd::TooSlow,
                    false => StreamEnd::ClientGone,
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
            Self::Http1(client) => client.gone().await,
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
            Self::Http1(client) => client.end().await.map_err(drop),
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
