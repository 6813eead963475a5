//! HTTP/2 frames (RFC 9113), written and read one by one.

use tokio::io::{AsyncRead, AsyncReadExt};

pub use crate::harness::frames::*;

const PADDED: u8 = 0x8;
const WITH_PRIORITY: u8 = 0x20;

pub const CANCEL: u32 = 8;
pub const INTERNAL_ERROR: u32 = 2;

/// The largest payload that every peer accepts.
pub const LARGEST: usize = 16_384;
/// A peer's window until it announces another.
pub const FIRST_WINDOW: i64 = 65_535;
/// The window that the tests announce, so that their peers never wait.
const WINDOW: u32 = 0x3fff_ffff;

#[derive(Debug)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the number in a WINDOW_UPDATE or RST_STREAM.
    pub fn number(&self) -> u32 {
        let bytes = self.payload.first_chunk().copied().unwrap_or_default();
        u32::from_be_bytes(bytes)
    }

    /// Returns the payload of DATA or HEADERS without padding and priority.
    pub fn content(&self) -> &[u8] {
        let mut rest = self.payload.as_slice();
        if self.has(PADDED) {
            let padding = rest.first().map_or(0, |n| usize::from(*n));
            let end = rest.len().saturating_sub(padding);
            rest = rest.get(1..end).unwrap_or_default();
        }
        if self.kind == HEADERS && self.has(WITH_PRIORITY) {
            rest = rest.get(5..).unwrap_or_default();
        }
        rest
    }
}

/// Returns the settings of both ends: large windows.
pub fn settings() -> Vec<u8> {
    const INITIAL_WINDOW_SIZE: u16 = 4;
    let mut payload = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
    payload.extend(WINDOW.to_be_bytes());
    let mut bytes = frame(SETTINGS, 0, 0, &payload);
    bytes.extend(frame(WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes()));
    bytes
}

pub fn headers(stream: u32, block: &[u8], is_end: bool) -> Vec<u8> {
    let mut parts = block.chunks(LARGEST).peekable();
    let first = parts.next().unwrap_or_default();
    let end_of = |is_last: bool| if is_last { END_HEADERS } else { 0 };
    let end = if is_end { END_STREAM } else { 0 };
    let mut bytes = frame(HEADERS, end | end_of(parts.peek().is_none()), stream, first);
    while let Some(part) = parts.next() {
        let flags = end_of(parts.peek().is_none());
        bytes.extend(frame(CONTINUATION, flags, stream, part));
    }
    bytes
}

/// Reads a frame. Returns `None` at the end of the connection.
pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    stream.read_exact(&mut payload).await.ok()?;
    Some(Frame {
        kind: head[3],
        flags: head[4],
        stream: u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]),
        payload,
    })
}

/// Returns the stream window in the settings, if they have one.
pub fn initial_window(settings: &Frame) -> Option<i64> {
    let mut found = None;
    for setting in settings.payload.chunks_exact(6) {
        if let [0, 4, a, b, c, d] = *setting {
            found = Some(i64::from(u32::from_be_bytes([a, b, c, d])));
        }
    }
    found
}
