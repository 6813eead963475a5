//! Watch events out of a response body.

use std::fmt::Display;

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::representation::{self, Form};

/// A frame holds one object. etcd refuses objects above 1.5 MiB by default;
/// aggregated servers may store more. A longer frame ends the watch.
const MAX_FRAME_BYTES: usize = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    #[error("watch connection failed: {0}")]
    Connection(String),
    #[error("watch event of more than {MAX_FRAME_BYTES} bytes")]
    TooLong,
    #[error("watch event is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("watch event of unknown type {0:?}")]
    Type(String),
}

/// One line of a JSON watch.
#[derive(Debug)]
pub(super) enum Frame {
    /// The whole object, and whether it is gone.
    Object {
        deleted: bool,
        object: Bytes,
    },
    Bookmark(Bytes),
    /// A Status.
    Error(Bytes),
}

/// A frame's object as a list item, in memory of its own: a slice would keep
/// whatever else was read with it. `None` if the bytes are no such object.
pub(super) fn item(envelope: &representation::Envelope, object: &Bytes) -> Option<Bytes> {
    let item = envelope.fragment(object)?;
    Some(match envelope.form {
        // A copy already, but where the object is a list item as it came.
        Form::Struct if item.as_ptr() != object.as_ptr() => item,
        Form::Struct | Form::Map => Bytes::copy_from_slice(&item),
    })
}

pub(super) struct Frames<B> {
    body: B,
    buffer: BytesMut,
    /// How much of `buffer` is known to hold no newline.
    scanned: usize,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl<B: Body<Data = Bytes> + Unpin> Frames<B>
where
    B::Error: Display,
{
    pub(super) fn new(body: B) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            scanned: 0,
        }
    }

    /// The next event; `None` at the stream's orderly end. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(at) = self.buffer[self.scanned..].iter().position(|b| *b == b'\n') {
                let line = self.buffer.split_to(self.scanned + at).freeze();
                self.buffer.advance(1);
                self.scanned = 0;
                return decode(&line).map(Some);
            }
            self.scanned = self.buffer.len();
            if self.buffer.len() > MAX_FRAME_BYTES {
                return Err(FrameError::TooLong);
            }
            match self.body.frame().await {
                None if self.buffer.is_empty() => return Ok(None),
                None => {
                    self.scanned = 0;
                    return decode(&self.buffer.split().freeze()).map(Some);
                }
                Some(frame) => {
                    let frame = frame.map_err(|e| FrameError::Connection(e.to_string()))?;
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

fn decode(line: &Bytes) -> Result<Frame, FrameError> {
    let envelope: Envelope = serde_json::from_slice(line)?;
    let object = line.slice_ref(envelope.object.get().as_bytes());
    match envelope.kind {
        "ADDED" | "MODIFIED" => Ok(Frame::Object {
            deleted: false,
            object,
        }),
        "DELETED" => Ok(Frame::Object {
            deleted: true,
            object,
        }),
        "BOOKMARK" => Ok(Frame::Bookmark(object)),
        "ERROR" => Ok(Frame::Error(object)),
        other => Err(FrameError::Type(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame as Chunk;
    use proptest::prelude::*;

    use super::*;

    #[tokio::test]
    async fn lines_become_frames_however_they_arrive() {
        let body = Full::<Bytes>::from(
            concat!(
                r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#,
                "\n",
                r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#,
                "\n"
            )
            .as_bytes()
            .to_vec(),
        );
        let mut frames = Frames::new(body);
        assert!(matches!(
            frames.next().await.unwrap(),
            Some(Frame::Object { deleted: false, object }) if object.starts_with(b"{\"metadata\"")
        ));
        assert!(matches!(
            frames.next().await.unwrap(),
            Some(Frame::Bookmark(_))
        ));
        assert!(frames.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn rubbish_is_an_error() {
        for text in [
            "nonsense\n",
            "{\"type\":\"ODD\",\"object\":{}}\n",
            "{\"type\":",
        ] {
            let mut frames = Frames::new(Full::<Bytes>::from(text.as_bytes().to_vec()));
            assert!(frames.next().await.is_err(), "{text}");
        }
    }

    /// A body in these chunks.
    fn chunked(chunks: Vec<Vec<u8>>) -> impl Body<Data = Bytes, Error = std::io::Error> + Unpin {
        let chunks = chunks
            .into_iter()
            .map(|c| Ok::<_, std::io::Error>(Chunk::data(Bytes::from(c))));
        StreamBody::new(futures::stream::iter(chunks))
    }

    fn all(chunks: Vec<Vec<u8>>) -> (Vec<String>, bool) {
        let mut frames = Frames::new(chunked(chunks));
        let read = async {
            let mut found = Vec::new();
            loop {
                match frames.next().await {
                    Ok(Some(frame)) => found.push(format!("{frame:?}")),
                    Ok(None) => return (found, true),
                    Err(_) => return (found, false),
                }
            }
        };
        futures::executor::block_on(read)
    }

    #[tokio::test]
    async fn a_frame_without_end_is_given_up() {
        let megabyte = Bytes::from(vec![b' '; 1 << 20]);
        let endless =
            std::iter::repeat_with(move || Ok::<_, std::io::Error>(Chunk::data(megabyte.clone())));
        let body = StreamBody::new(futures::stream::iter(endless));
        let mut frames = Frames::new(body);
        assert!(matches!(frames.next().await, Err(FrameError::TooLong)));
        assert!(frames.buffer.len() <= MAX_FRAME_BYTES + (1 << 20));
    }

    fn bytes_like_json() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"{\"type\":\"ADDED\",\"object\":".to_vec()),
            Just(b"{\"metadata\":{}}".to_vec()),
            Just(b"}\n".to_vec()),
            Just(b"\"type\"".to_vec()),
            Just(b"null".to_vec()),
            Just(b"\\u12".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..8),
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn anything_ends_without_panic(chunks in proptest::collection::vec(bytes_like_json(), 0..6)) {
            all(chunks);
        }

        #[test]
        fn cuts_do_not_matter(sizes in proptest::collection::vec(0..40usize, 1..20)) {
            let text: Vec<u8> = (0..9)
                .map(|n| {
                    let kind = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"][n % 5];
                    format!("{{\"type\":\"{kind}\",\"object\":{{\"n\":{n},\"s\":\"\\n\"}}}}\n")
                })
                .collect::<String>()
                .into_bytes();
            let mut rest = &text[..];
            let mut chunks = Vec::new();
            for size in sizes.iter().cycle().take(1000) {
                let (chunk, after) = rest.split_at((*size).min(rest.len()));
                chunks.push(chunk.to_vec());
                rest = after;
            }
            chunks.push(rest.to_vec());
            prop_assert_eq!(all(chunks), all(vec![text]));
        }
    }
}
