//! Splits the stream of a watch into events.

use std::io::{self, Write};

use bytes::{Buf, Bytes, BytesMut};
use flate2::write::MultiGzDecoder;
use kubernetes_wire::api::protobuf_wire::{Fields, Value};

use super::body::Unreadable;
use super::representation::Label;
use super::version;

/// The longest event that is compared.
const MAX_FRAME: usize = 16 << 20;

/// The annotation of the bookmark at the end of initial events (KEP-3157).
const INITIAL_EVENTS_END: &[u8] = b"k8s.io/initial-events-end";

/// One event, with its framing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub bytes: Bytes,
    label: Label,
}

impl Frame {
    pub fn is_bookmark(&self) -> bool {
        self.is_of("BOOKMARK")
    }

    pub fn is_error(&self) -> bool {
        self.is_of("ERROR")
    }

    pub fn ends_initial_events(&self) -> bool {
        let mut places = self.bytes.windows(INITIAL_EVENTS_END.len());
        self.is_bookmark() && places.any(|bytes| bytes == INITIAL_EVENTS_END)
    }

    pub fn version(&self) -> Option<u64> {
        if self.label.is_protobuf() {
            return version::of_answer(self.label, false, self.message()?);
        }
        let event: serde_json::Value = serde_json::from_slice(&self.bytes).ok()?;
        let object = event.get("object")?;
        // A Table in an event has one row, with the version of its object.
        let version = object.pointer("/metadata/resourceVersion")?;
        version.as_str()?.parse().ok()
    }

    pub(super) fn with_bytes(&self, bytes: Bytes) -> Self {
        let label = self.label;
        Self { bytes, label }
    }

    pub(super) fn is_table(&self) -> bool {
        self.label == Label::Table
    }

    /// Returns the bytes to search for a difference: the event in JSON, or the
    /// object in protobuf.
    pub fn content(&self) -> &[u8] {
        match self.label.is_protobuf() {
            true => self.message().unwrap_or(&self.bytes),
            false => &self.bytes,
        }
    }

    fn is_of(&self, kind: &str) -> bool {
        if !self.label.is_protobuf() {
            let begins = self.bytes.strip_prefix(b"{\"type\":\"");
            return begins.is_some_and(|rest| rest.starts_with(kind.as_bytes()));
        }
        let found = Fields::new(self.bytes.get(4..).unwrap_or_default()).next();
        matches!(found, Some(Ok((1, Value::Bytes(found)))) if found == kind.as_bytes())
    }

    /// Finds the object in `meta.v1.WatchEvent{2: RawExtension{1: raw}}`.
    fn message(&self) -> Option<&[u8]> {
        let object = version::field(self.bytes.get(4..)?, 2)?;
        version::field(object, 1)
    }
}

/// Splits bytes into frames as they arrive.
pub struct FrameReader {
    label: Label,
    gunzip: Option<MultiGzDecoder<Vec<u8>>>,
    rest: BytesMut,
}

impl FrameReader {
    pub fn new(label: Label, is_gzip: bool) -> Self {
        Self {
            label,
            gunzip: is_gzip.then(|| MultiGzDecoder::new(Vec::new())),
            rest: BytesMut::new(),
        }
    }

    /// Takes more bytes. Appends the frames that they complete.
    pub fn push(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), Unreadable> {
        match &mut self.gunzip {
            None => self.rest.extend_from_slice(bytes),
            Some(gunzip) => {
                let plain = inflate(gunzip, bytes).map_err(|_| Unreadable::NotGzip)?;
                self.rest.extend_from_slice(&plain);
            }
        }
        while let Some(length) = self.first_frame() {
            frames.push(Frame {
                bytes: self.rest.split_to(length).freeze(),
                label: self.label,
            });
        }
        match self.rest.len() > MAX_FRAME {
            true => Err(Unreadable::TooLarge),
            false => Ok(()),
        }
    }

    /// Returns the number of bytes that are no whole frame yet.
    pub fn pending(&self) -> usize {
        self.rest.len()
    }

    /// Returns the length of the first frame, if it is complete.
    fn first_frame(&self) -> Option<usize> {
        if !self.label.is_protobuf() {
            let end = self.rest.iter().position(|b| *b == b'\n')?;
            return Some(end.saturating_add(1));
        }
        let mut prefix = self.rest.get(..4)?;
        let length = usize::try_from(prefix.get_u32()).ok()?.checked_add(4)?;
        (self.rest.len() >= length).then_some(length)
    }
}

/// Decompresses all that has arrived. The sender flushes after each event.
fn inflate(gunzip: &mut MultiGzDecoder<Vec<u8>>, bytes: &[u8]) -> io::Result<Vec<u8>> {
    gunzip.write_all(bytes)?;
    gunzip.flush()?;
    Ok(std::mem::take(gunzip.get_mut()))
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const EVENT: &str = r#"{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"}}}"#;
    const BOOKMARK: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;

    fn split(label: Label, is_gzip: bool, stream: &[u8], step: usize) -> Vec<Frame> {
        let mut reader = FrameReader::new(label, is_gzip);
        let mut frames = Vec::new();
        for piece in stream.chunks(step) {
            reader.push(piece, &mut frames).unwrap();
        }
        frames
    }

    #[test]
    fn lines_are_events_however_bytes_arrive() {
        let stream = format!("{EVENT}\n{BOOKMARK}\n{EVENT}");
        for step in [1, 7, 1_000] {
            let frames = split(Label::Json, false, stream.as_bytes(), step);
            let versions: Vec<_> = frames.iter().map(Frame::version).collect();
            assert_eq!(versions, [Some(7), Some(8)]);
            assert!(!frames[0].is_bookmark() && frames[1].ends_initial_events());
        }
    }

    #[test]
    fn compressed_events_are_read_as_they_are_flushed() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(EVENT.as_bytes()).unwrap();
        encoder.write_all(b"\n").unwrap();
        encoder.flush().unwrap();
        let so_far = encoder.get_ref().clone();
        assert_eq!(split(Label::Json, true, &so_far, 10).len(), 1);
        let mut reader = FrameReader::new(Label::Json, true);
        assert_eq!(
            reader.push(b"junk that is no gzip", &mut Vec::new()),
            Err(Unreadable::NotGzip)
        );
    }

    #[test]
    fn protobuf_has_lengths() {
        let field = |number: u8, content: &[u8]| {
            let mut out = vec![number << 3 | 2, u8::try_from(content.len()).unwrap()];
            out.extend_from_slice(content);
            out
        };
        let metadata = field(1, &field(6, b"9"));
        let object = [&b"k8s\0"[..], &field(2, &metadata)].concat();
        let event = [field(1, b"ADDED"), field(2, &field(1, &object))].concat();
        let length = u32::try_from(event.len()).unwrap().to_be_bytes();
        let stream = [&length[..], &event].concat().repeat(2);
        for step in [1, 5, 1_000] {
            let frames = split(Label::Protobuf, false, &stream, step);
            assert_eq!(frames.len(), 2);
            assert_eq!(frames[1].version(), Some(9));
            assert_eq!(frames[1].content(), object);
            assert!(!frames[1].is_bookmark() && !frames[1].is_error());
        }
    }
}
