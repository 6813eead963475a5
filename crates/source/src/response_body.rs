//! The bodies of answers, and the limits for reading them.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;

use crate::BoxError;

/// The most bytes of an answer, and the most time for it. No server is trusted to
/// end an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimit {
    pub bytes: usize,
    pub within: Duration,
}

impl BodyLimit {
    /// The limit for a document that is not a list of objects: a discovery
    /// document, a definition, a Table of one row. The largest known are below
    /// 1 MiB. Each resource that is being filled may hold one such document.
    pub const DOCUMENT: Self = Self::new(4 << 20, Duration::from_secs(10));

    pub const fn new(bytes: usize, within: Duration) -> Self {
        Self { bytes, within }
    }
}

/// The reason why an answer was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("longer than {0} bytes")]
    TooLarge(usize),
    #[error("not complete after {0:?}")]
    Late(Duration),
    #[error(transparent)]
    BrokeOff(BoxError),
}

/// The body of an answer. It does not implement [`Body`], so that nobody reads it
/// whole without a [`BodyLimit`].
#[derive(Debug)]
pub struct ResponseBody(BodyStream);

/// The chunks of a body in the order of arrival. A reader that keeps them must
/// limit how much it keeps.
#[derive(Debug)]
pub struct BodyStream(UnsyncBoxBody<Bytes, BoxError>);

impl ResponseBody {
    /// Takes the body of an answer as an HTTP library gives it.
    pub fn new<B>(body: B) -> Self
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(BodyStream(body.map_err(Into::into).boxed_unsync()))
    }

    /// Reads the body to its end, into one buffer: chunks of a byte each would
    /// take many times their length in memory if they were kept as they are.
    pub async fn collect_bytes(self, bound: BodyLimit) -> Result<Bytes, BodyError> {
        let BodyLimit { bytes, within } = bound;
        let collect = async {
            let mut stream = self.0;
            let mut collected = Segments::default();
            while let Some(frame) = stream.frame().await {
                let Ok(data) = frame.map_err(BodyError::BrokeOff)?.into_data() else {
                    continue;
                };
                if collected.length.saturating_add(data.len()) > bytes {
                    return Err(BodyError::TooLarge(bytes));
                }
                collected.push(data);
            }
            collected.join().await
        };
        tokio::time::timeout(within, collect)
            .await
            .unwrap_or(Err(BodyError::Late(within)))
    }

    /// Returns the chunks, without a limit on their total size: a watch has no
    /// end.
    pub fn into_stream(self) -> BodyStream {
        self.0
    }
}

/// The body read so far, in segments. A single growing buffer would be copied
/// whole each time it doubles, and everything else on its thread would wait:
/// for a document of 100 MiB that is tenths of a second.
#[derive(Default)]
struct Segments {
    /// The first chunk. Most bodies have only one.
    first: Bytes,
    later: Vec<BytesMut>,
    length: usize,
}

impl Segments {
    const SEGMENT_BYTES: usize = 1 << 20;

    fn push(&mut self, mut data: Bytes) {
        if self.length == 0 {
            self.length = data.len();
            self.first = data;
            return;
        }
        self.length = self.length.saturating_add(data.len());
        while !data.is_empty() {
            let last = match self.later.last_mut() {
                Some(last) if last.len() < Self::SEGMENT_BYTES => last,
                // The first segment grows, so that short bodies stay small.
                None => self.later.push_mut(BytesMut::new()),
                _ => self
                    .later
                    .push_mut(BytesMut::with_capacity(Self::SEGMENT_BYTES)),
            };
            let room = Self::SEGMENT_BYTES.saturating_sub(last.len());
            last.extend_from_slice(&data.split_to(room.min(data.len())));
        }
    }

    /// Joins all segments. If they are longer than one segment, they are joined
    /// on a thread that may block.
    async fn join(self) -> Result<Bytes, BodyError> {
        let Self {
            first,
            later,
            length,
        } = self;
        if later.is_empty() {
            return Ok(first);
        }
        let join = move || {
            let mut all = Vec::with_capacity(length);
            all.extend_from_slice(&first);
            later.iter().for_each(|s| all.extend_from_slice(s));
            Bytes::from(all)
        };
        if length <= Self::SEGMENT_BYTES {
            return Ok(join());
        }
        let joined = tokio::task::spawn_blocking(join).await;
        joined.map_err(|error| BodyError::BrokeOff(error.into()))
    }
}

impl Body for BodyStream {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;

    use super::*;

    fn body(pieces: Vec<&'static str>) -> ResponseBody {
        let pieces = pieces
            .into_iter()
            .map(|p| Ok::<_, BoxError>(Frame::data(Bytes::from(p))));
        ResponseBody::new(StreamBody::new(futures::stream::iter(pieces)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_read_within_its_bound() {
        let bound = BodyLimit::new(4, Duration::from_secs(1));
        for (given, expected) in [
            (vec![], Some("")),
            (vec!["abcd"], Some("abcd")),
            (vec!["a", "", "bc", "d"], Some("abcd")),
            (vec!["abcde"], None),
            (vec!["ab", "c", "de"], None),
        ] {
            let read = body(given.clone()).collect_bytes(bound).await;
            match (read, expected) {
                (Ok(read), Some(expected)) => assert_eq!(read, expected),
                (Err(BodyError::TooLarge(4)), None) => {}
                (read, _) => panic!("{given:?}: {read:?}"),
            }
        }
        let long = vec![&*"0123456789".repeat(333_333).leak(); 3];
        let all = body(long.clone()).collect_bytes(BodyLimit {
            bytes: 10_000_000,
            ..bound
        });
        assert_eq!(all.await.unwrap(), long.concat());
        let endless = futures::stream::pending::<Result<Frame<Bytes>, BoxError>>();
        let endless = ResponseBody::new(StreamBody::new(endless));
        let late = endless.collect_bytes(bound).await;
        assert!(matches!(late, Err(BodyError::Late(_))), "{late:?}");
    }
}
