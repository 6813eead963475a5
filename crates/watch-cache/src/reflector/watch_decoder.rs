//! Decodes watch events from a response body.

use std::fmt::Display;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;
use kubernetes_wire::api::protobuf_wire::{Fields, Value};
use kubernetes_wire::representation::protobuf_envelope::Answer;
use kubernetes_wire::representation::{self, Encoding, Form};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::memory_pool::{MemoryExhausted, MemoryReservation};
use super::pieces::Pieces;
use crate::store::{Change, MalformedObject, Resource, StoredObject};

/// The most bytes of a frame, which holds one object. etcd refuses objects
/// above 1.5 MiB by default, but aggregated servers may store larger ones.
const MAX_FRAME_BYTES: usize = 64 << 20;

/// The bytes of the length that precedes each event in protobuf.
const LENGTH_BYTES: usize = 4;

/// The most bytes of a bookmark, which is an empty object of its kind.
const MAX_BOOKMARK_BYTES: usize = 1 << 20;

/// The bytes of a frame that are not counted against the memory limit. Each
/// watch may have a half-read frame of this size. Few watches have larger ones.
const UNCOUNTED_BYTES: usize = 64 << 10;

#[derive(Debug, thiserror::Error)]
pub(super) enum WatchDecodeError {
    #[error("watch connection failed: {0}")]
    Connection(String),
    #[error("watch event of more than {0} bytes")]
    TooLong(usize),
    #[error("watch event: {0}")]
    MemoryExhausted(#[from] MemoryExhausted),
    #[error("watch event is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("watch event is not understood")]
    Protobuf,
    #[error("watch event of unknown type {0:?}")]
    Type(String),
}

#[derive(Debug)]
pub(super) enum Frame {
    Object {
        change: Change,
        object: Object,
    },
    /// The bookmark's object, as JSON.
    Bookmark(Bytes),
    /// A Status, as JSON.
    Error(Bytes),
}

#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) encoding: Encoding,
    pub(super) bytes: Bytes,
}

impl Object {
    /// Returns the object as a list item, in memory of its own: a slice would
    /// keep the bytes that were read with it. `None` if the bytes are not an
    /// object of the envelope's kind.
    pub(super) fn item(&self, envelope: &representation::Envelope) -> Option<Bytes> {
        if self.encoding == Encoding::Protobuf {
            let answer = Answer::parse(&self.bytes)?;
            let expected =
                answer.api_version == envelope.api_version && answer.kind == envelope.kind;
            return expected.then(|| Bytes::copy_from_slice(answer.message));
        }
        let item = envelope.fragment(&self.bytes)?;
        Some(match envelope.form {
            // The fragment is a copy already, unless upstream sent the object
            // as it stands in a list.
            Form::Struct if item.as_ptr() != self.bytes.as_ptr() => item,
            Form::Struct | Form::Map => Bytes::copy_from_slice(&item),
        })
    }

    pub(super) fn stored(&self, resource: &Resource) -> Result<StoredObject, MalformedObject> {
        let item = self.item(&resource.envelope);
        let item = item.ok_or(MalformedObject::Kind)?;
        let (fields, envelope) = (&resource.fields, &resource.envelope);
        StoredObject::decode_fresh(self.encoding, item, fields, envelope)
    }

    pub(super) fn json(&self) -> Option<Bytes> {
        if self.encoding == Encoding::Json {
            return Some(self.bytes.clone());
        }
        let answer = Answer::parse(&self.bytes)?;
        let (api_version, kind) = (answer.api_version, answer.kind);
        let envelope = representation::Envelope::new(Form::Struct, api_version, kind, "");
        let item = envelope.transcoded(answer.message, Encoding::Json).ok()?;
        Some(envelope.answer(Encoding::Json, &item))
    }
}

pub(super) struct WatchDecoder<B> {
    body: B,
    encoding: Encoding,
    buffer: Pieces,
    /// The number of bytes of the last piece that are known to hold no newline.
    scanned: usize,
    most: usize,
    /// Counts the bytes of a half-read frame. `None` if they are not counted.
    reading: Option<MemoryReservation>,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl<B: Body<Data = Bytes> + Unpin> WatchDecoder<B>
where
    B::Error: Display,
{
    pub(super) fn new(body: B, encoding: Encoding, reading: MemoryReservation) -> Self {
        Self {
            body,
            encoding,
            buffer: Pieces::default(),
            scanned: 0,
            most: MAX_FRAME_BYTES,
            reading: Some(reading),
        }
    }

    /// Makes a decoder for bookmarks, whose bytes are not counted against the
    /// memory limit.
    pub(super) fn of_bookmarks(body: B, encoding: Encoding) -> Self {
        Self {
            body,
            encoding,
            buffer: Pieces::default(),
            scanned: 0,
            most: MAX_BOOKMARK_BYTES,
            reading: None,
        }
    }

    /// Notes that the initial events are in a store now, so the frames that
    /// follow replace nothing.
    pub(super) fn go_on_as_watch(&mut self) {
        if let Some(reading) = &mut self.reading {
            reading.replace_nothing();
        }
    }

    /// Returns the next event. `None` when the stream has ended between two
    /// events. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<Frame>, WatchDecodeError> {
        loop {
            let whole = match self.encoding {
                Encoding::Json => self.line(),
                Encoding::Protobuf => self.message()?,
            };
            if let Some(frame) = whole {
                return decode(self.encoding, &frame).map(Some);
            }
            if self.buffer.len() > self.most.saturating_add(LENGTH_BYTES) {
                return Err(WatchDecodeError::TooLong(self.most));
            }
            if let Some(reading) = &mut self.reading {
                let counted = self.buffer.len().saturating_sub(UNCOUNTED_BYTES);
                reading.set(counted).await?;
            }
            match self.body.frame().await {
                None if self.buffer.len() == 0 => return Ok(None),
                // The last line may lack its newline.
                None if self.encoding == Encoding::Json => {
                    self.scanned = 0;
                    let line = self.buffer.take(usize::MAX);
                    return decode(self.encoding, &line).map(Some);
                }
                None => {
                    return Err(WatchDecodeError::Connection(
                        "cut off in a frame".to_owned(),
                    ));
                }
                Some(frame) => {
                    let frame = frame.map_err(|e| WatchDecodeError::Connection(e.to_string()))?;
                    if let Ok(data) = frame.into_data() {
                        self.buffer.push(&data);
                    }
                }
            }
        }
    }

    fn line(&mut self) -> Option<Bytes> {
        let rest = self.buffer.last().get(self.scanned..).unwrap_or_default();
        let Some(at) = rest.iter().position(|b| *b == b'\n') else {
            self.buffer.go_on();
            self.scanned = self.buffer.last().len();
            return None;
        };
        let end = self.scanned.saturating_add(at);
        let line = self.buffer.take(end);
        self.buffer.skip(1);
        self.scanned = 0;
        Some(line)
    }

    fn message(&mut self) -> Result<Option<Bytes>, WatchDecodeError> {
        let Some(length) = self.buffer.first().first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        if length > self.most {
            return Err(WatchDecodeError::TooLong(self.most));
        }
        let Some(beyond) = self
            .buffer
            .len()
            .checked_sub(length.saturating_add(LENGTH_BYTES))
        else {
            self.buffer.go_on();
            return Ok(None);
        };
        let of_last = self.buffer.last().len().saturating_sub(beyond);
        let mut message = self.buffer.take(of_last);
        Ok(Some(message.split_off(LENGTH_BYTES.min(message.len()))))
    }
}

fn decode(encoding: Encoding, frame: &Bytes) -> Result<Frame, WatchDecodeError> {
    let (kind, bytes) = match encoding {
        Encoding::Json => {
            let event: Envelope = serde_json::from_slice(frame)?;
            let object = frame.slice_ref(event.object.get().as_bytes());
            (event.kind, object)
        }
        Encoding::Protobuf => event(frame).ok_or(WatchDecodeError::Protobuf)?,
    };
    let object = Object { encoding, bytes };
    let json = |object: Object| object.json().ok_or(WatchDecodeError::Protobuf);
    let change = match kind {
        "ADDED" => Change::Added,
        "MODIFIED" => Change::Modified,
        "DELETED" => Change::Deleted,
        "BOOKMARK" => return json(object).map(Frame::Bookmark),
        "ERROR" => return json(object).map(Frame::Error),
        other => return Err(WatchDecodeError::Type(other.to_owned())),
    };
    Ok(Frame::Object { change, object })
}

/// Returns the type and the object of a `meta.v1.WatchEvent`.
fn event(frame: &Bytes) -> Option<(&str, Bytes)> {
    let (mut kind, mut object) = (None, None);
    for field in Fields::new(frame) {
        match field.ok()? {
            (1, Value::Bytes(text)) => kind = Some(std::str::from_utf8(text).ok()?),
            // The object is in a RawExtension.
            (2, Value::Bytes(raw)) => match Fields::new(raw).next()?.ok()? {
                (1, Value::Bytes(bytes)) => object = Some(frame.slice_ref(bytes)),
                _ => return None,
            },
            _ => return None,
        }
    }
    Some((kind?, object?))
}

#[cfg(test)]
mod tests {
    use http_body::Frame as Chunk;
    use http_body_util::{Full, StreamBody};
    use kubernetes_wire::api::protobuf_wire::put_bytes;
    use kubernetes_wire::representation::EventType;
    use kubernetes_wire::representation::protobuf_envelope::Type;
    use proptest::prelude::*;

    use super::*;
    use crate::reflector::memory_pool::MemoryPool;

    fn reading() -> MemoryReservation {
        MemoryPool::unlimited().begin(0)
    }

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
        let mut frames = WatchDecoder::new(body, Encoding::Json, reading());
        assert!(matches!(
            frames.next().await.unwrap(),
            Some(Frame::Object { change: Change::Added, object }) if object.bytes.starts_with(b"{\"metadata\"")
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
            let mut frames = WatchDecoder::new(
                Full::<Bytes>::from(text.as_bytes().to_vec()),
                Encoding::Json,
                reading(),
            );
            assert!(frames.next().await.is_err(), "{text}");
        }
    }

    fn chunked(chunks: Vec<Vec<u8>>) -> impl Body<Data = Bytes, Error = std::io::Error> + Unpin {
        let chunks = chunks
            .into_iter()
            .map(|c| Ok::<_, std::io::Error>(Chunk::data(Bytes::from(c))));
        StreamBody::new(futures::stream::iter(chunks))
    }

    #[tokio::test]
    async fn messages_become_frames_however_they_arrive() {
        let status = kubernetes_wire::api::Status::unauthorized();
        let status = kubernetes_wire::api::protobuf::encode_status(&status);
        let pod = Type::new("v1", "Pod");
        let stream = [
            pod.watch_frame(EventType::Added, b"abc"),
            pod.watch_frame(EventType::Deleted, b""),
            error_frame(&status),
        ]
        .concat();
        for size in [1, 3, 7, 1000] {
            let chunks = stream.chunks(size).map(<[u8]>::to_vec).collect();
            let mut frames = WatchDecoder::new(chunked(chunks), Encoding::Protobuf, reading());
            assert!(matches!(
                frames.next().await.unwrap(),
                Some(Frame::Object { object, .. }) if object.bytes == pod.answer(b"abc")
            ));
            assert!(matches!(
                frames.next().await.unwrap(),
                Some(Frame::Object {
                    change: Change::Deleted,
                    ..
                })
            ));
            let Some(Frame::Error(json)) = frames.next().await.unwrap() else {
                panic!("an error")
            };
            assert_eq!(json, kubernetes_wire::api::Status::unauthorized().to_json());
            assert!(frames.next().await.unwrap().is_none());
        }
        // One stream is cut off, and one has a length that is too large.
        let mut frames = WatchDecoder::new(
            chunked(vec![stream[..9].to_vec()]),
            Encoding::Protobuf,
            reading(),
        );
        assert!(frames.next().await.is_err());
        let mut frames =
            WatchDecoder::new(chunked(vec![vec![0xff; 9]]), Encoding::Protobuf, reading());
        assert!(matches!(
            frames.next().await,
            Err(WatchDecodeError::TooLong(_))
        ));
    }

    fn error_frame(answer: &[u8]) -> Bytes {
        let (mut event, mut object) = (Vec::new(), Vec::new());
        put_bytes(1, answer, &mut object);
        put_bytes(1, b"ERROR", &mut event);
        put_bytes(2, &object, &mut event);
        let length = u32::try_from(event.len()).unwrap().to_be_bytes();
        [&length[..], &event].concat().into()
    }

    fn all(chunks: Vec<Vec<u8>>) -> (Vec<String>, bool) {
        let mut frames = WatchDecoder::new(chunked(chunks), Encoding::Json, reading());
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
        let mut frames = WatchDecoder::new(body, Encoding::Json, reading());
        assert!(matches!(
            frames.next().await,
            Err(WatchDecodeError::TooLong(_))
        ));
        assert!(frames.buffer.len() <= MAX_FRAME_BYTES + LENGTH_BYTES + (1 << 20));
    }

    /// Long events on many watches take memory that must be counted.
    #[tokio::test(start_paused = true)]
    async fn a_frame_that_is_not_whole_counts_against_the_limit() {
        let memory = MemoryPool::unlimited();
        memory.set_limit(3 << 20);
        let megabyte = Bytes::from(vec![b' '; 1 << 20]);
        let endless =
            std::iter::repeat_with(move || Ok::<_, std::io::Error>(Chunk::data(megabyte.clone())));
        let body = StreamBody::new(futures::stream::iter(endless));
        let mut frames = WatchDecoder::new(body, Encoding::Json, memory.begin(0));
        let end = frames.next().await;
        assert!(
            matches!(end, Err(WatchDecodeError::MemoryExhausted(_))),
            "{end:?}"
        );
        assert!(memory.reading() > 2 << 20);
        drop(frames);
        assert_eq!(memory.reading(), 0);
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
