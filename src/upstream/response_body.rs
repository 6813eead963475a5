//! Ending what waits for an API server that has fallen silent.
//!
//! A machine that loses its network, or a process that hangs, closes no
//! connection: a watch on it would simply never hear of anything again, and the
//! cache would be out of date without knowing.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Body as HttpBody, Frame};
use tokio::sync::watch;
use tower::BoxError;

/// Health checks without any answer, one after the other, after which a server
/// is given up: one may be lost to a busy moment.
const SILENT_CHECKS: u32 = 2;

#[derive(Debug, thiserror::Error)]
#[error("the API server does not answer its health checks")]
struct Silent;

/// The body of an answer to a request of apifront's own.
#[derive(Debug)]
pub struct ResponseBody(UnsyncBoxBody<Bytes, BoxError>);

impl ResponseBody {
    pub async fn collect_bytes(self) -> Result<Bytes, BoxError> {
        self.0.collect().await.map(|whole| whole.to_bytes())
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }
}

/// Counts unanswered checks, and tells the bodies being read.
pub(super) struct Silence(watch::Sender<u32>);

impl Default for Silence {
    fn default() -> Self {
        Self(watch::channel(0).0)
    }
}

impl Silence {
    /// The result of a check: any answer is a sign of life.
    pub(super) fn heard(&self, answered: bool) {
        self.0.send_if_modified(|silent| {
            let before = *silent;
            *silent = if answered {
                0
            } else {
                before.saturating_add(1)
            };
            *silent != before
        });
    }

    /// The same body, which fails once the server is given up.
    pub(super) fn bound<B>(&self, body: B) -> ResponseBody
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let silent = self.0.subscribe();
        ResponseBody(StreamBody::new(frames(body, silent)).boxed_unsync())
    }
}

fn frames<B>(
    body: B,
    silent: watch::Receiver<u32>,
) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    futures::stream::unfold(Some((body, silent)), |state| async move {
        let (mut body, mut silent) = state?;
        let frame = tokio::select! {
            frame = body.frame() => frame,
            _ = silent.wait_for(|n| *n >= SILENT_CHECKS) => {
                return Some((Err(Silent.into()), None));
            }
        };
        match frame? {
            Ok(frame) => Some((Ok(frame), Some((body, silent)))),
            Err(error) => Some((Err(error.into()), None)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endless() -> impl HttpBody<Data = Bytes, Error = BoxError> + Send + Unpin + 'static {
        StreamBody::new(futures::stream::pending())
    }

    #[tokio::test]
    async fn a_body_of_a_silent_server_fails() {
        let silence = Silence::default();
        let mut body = silence.bound(endless());
        silence.heard(false);
        silence.heard(true);
        silence.heard(false);
        let early = tokio::time::timeout(std::time::Duration::from_millis(20), body.frame());
        assert!(early.await.is_err(), "one lost check is no silence");
        silence.heard(false);
        assert!(body.frame().await.is_some_and(|f| f.is_err()));
        assert!(body.frame().await.is_none());
    }

    #[tokio::test]
    async fn other_bodies_are_as_they_were() {
        let silence = Silence::default();
        let body = silence.bound(kube::client::Body::from(b"text".to_vec()));
        assert_eq!(body.collect_bytes().await.unwrap(), "text");
    }
}
