//! The end of a body whose API server has fallen silent.
//!
//! A machine that loses its network, or a process that hangs, closes no connection.
//! A watch on it would receive no more events, and the cache would be out of date
//! without anybody noticing.

use apifront_source::{BoxError, ResponseBody};
use bytes::Bytes;
use futures::Stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Body, Frame};
use tokio::sync::watch;

/// The number of consecutive health checks without any answer after which a
/// server is given up. A single answer may be lost in a busy moment.
const SILENT_CHECKS: u32 = 2;

#[derive(Debug, thiserror::Error)]
#[error("the API server does not answer its health checks")]
struct Silent;

/// Counts unanswered checks, and passes the count to the bodies that are being
/// read.
pub(super) struct Silence(watch::Sender<u32>);

impl Default for Silence {
    fn default() -> Self {
        Self(watch::channel(0).0)
    }
}

impl Silence {
    /// Records the result of a check. Any answer, even to another request,
    /// shows that the server is alive.
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

    /// Wraps a body so that it fails once the server is given up.
    pub(super) fn bound<B>(&self, body: B) -> ResponseBody
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let silent = self.0.subscribe();
        ResponseBody::new(StreamBody::new(frames(body, silent)))
    }
}

fn frames<B>(
    body: B,
    silent: watch::Receiver<u32>,
) -> impl Stream<Item = Result<Frame<Bytes>, BoxError>> + Send
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
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
    use apifront_source::BodyLimit;

    use super::*;

    fn endless() -> impl Body<Data = Bytes, Error = BoxError> + Send + Unpin + 'static {
        StreamBody::new(futures::stream::pending())
    }

    #[tokio::test]
    async fn a_body_of_a_silent_server_fails() {
        let silence = Silence::default();
        let mut body = silence.bound(endless()).into_stream();
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
        let text = body.collect_bytes(BodyLimit::DOCUMENT).await;
        assert_eq!(text.unwrap(), "text");
    }
}
