//! The body of a request that does not go through pingora.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// The body. It is sent piece by piece, as it arrives from the client.
#[derive(Debug, Default)]
pub struct RequestBody(Option<mpsc::Receiver<Piece>>);

/// The client's side of a body. Dropping it before [`BodySender::end`] aborts the
/// request.
#[derive(Debug)]
pub struct BodySender(mpsc::Sender<Piece>);

#[derive(Debug)]
enum Piece {
    Data(Bytes),
    End,
}

/// The client went away before the end of its body.
#[derive(Debug, thiserror::Error)]
#[error("the request's body broke off")]
pub struct BodyBrokeOff;

impl RequestBody {
    /// Makes a body whose pieces come from the sender.
    pub fn streamed() -> (BodySender, Self) {
        let (sender, receiver) = mpsc::channel(1);
        (BodySender(sender), Self(Some(receiver)))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl BodySender {
    /// Sends a piece as soon as upstream takes it. Returns false if upstream takes
    /// no more. Cancel-safe: a piece that was not taken is not sent.
    pub async fn send(&self, data: Bytes) -> bool {
        self.0.send(Piece::Data(data)).await.is_ok()
    }

    pub async fn end(&self) -> bool {
        self.0.send(Piece::End).await.is_ok()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyBrokeOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyBrokeOff>>> {
        let Some(pieces) = &mut self.0 else {
            return Poll::Ready(None);
        };
        pieces.poll_recv(cx).map(|piece| match piece {
            Some(Piece::Data(data)) => Some(Ok(Frame::data(data))),
            Some(Piece::End) => {
                self.0 = None;
                None
            }
            None => Some(Err(BodyBrokeOff)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.0 {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(0),
        }
    }
}
