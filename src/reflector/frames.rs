//! Watch events out of a response body.

use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A frame holds one object. etcd refuses objects above 1.5 MiB by default;
/// aggregated servers may store more. A longer frame ends the watch.
const MAX_FRAME_BYTES: usize = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub(super) enum FrameError {
    #[error("watch connection failed: {0}")]
    Connection(#[from] kube::Error),
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

pub(super) struct Frames {
    body: Body,
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

impl Frames {
    pub(super) fn new(body: Body) -> Self {
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
                    if let Ok(data) = frame?.into_data() {
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
    use super::*;

    #[tokio::test]
    async fn lines_become_frames_however_they_arrive() {
        let body = Body::from(
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
            let mut frames = Frames::new(Body::from(text.as_bytes().to_vec()));
            assert!(frames.next().await.is_err(), "{text}");
        }
    }
}
