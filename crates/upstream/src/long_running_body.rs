//! The body of an answer to a request that does not go through pingora.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming};
use tower::BoxError;

use super::stream_slot::StreamSlot;

/// The body. Dropped before its end, it cancels the request upstream.
#[derive(Debug)]
pub struct LongRunningBody(Kind);

#[derive(Debug)]
enum Kind {
    /// The body from a connection that carries only this request.
    Own(Incoming),
    /// The body from a stream on a shared connection. Dropping the body frees
    /// its slot.
    Shared {
        stream: h2::RecvStream,
        _slot: StreamSlot,
    },
}

impl LongRunningBody {
    pub(super) fn own(body: Incoming) -> Self {
        Self(Kind::Own(body))
    }

    pub(super) fn shared(stream: h2::RecvStream, slot: StreamSlot) -> Self {
        Self(Kind::Shared {
            stream,
            _slot: slot,
        })
    }
}

impl Body for LongRunningBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut self.0 {
            Kind::Own(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(BoxError::from))),
            Kind::Shared { stream, .. } => {
                let data = match ready!(stream.poll_data(cx)) {
                    None => return Poll::Ready(None),
                    Some(Ok(data)) => data,
                    Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                };
                // The reader has taken the data, so the server may send as much
                // again.
                let taken = stream.flow_control().release_capacity(data.len());
                Poll::Ready(Some(match taken {
                    Ok(()) => Ok(Frame::data(data)),
                    Err(error) => Err(error.into()),
                }))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Own(body) => body.is_end_stream(),
            Kind::Shared { stream, .. } => stream.is_end_stream(),
        }
    }
}
