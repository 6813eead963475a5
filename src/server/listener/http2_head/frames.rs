//! The frames that carry a block of fields (RFC 9113, 4.1, 6.2 and 6.10).

use bytes::BytesMut;

use crate::server::listener::frame_meter::{
    CONTINUATION, END_HEADERS, END_STREAM, FRAME_HEADER_BYTES, HEADERS,
};

/// The most octets of a frame, as long as the server's SETTINGS set no other limit.
pub(super) const MAX_FRAME_OCTETS: usize = 16 << 10;

const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) length: usize,
    kind: u8,
    flags: u8,
    pub(super) stream: u32,
}

impl Frame {
    /// Reads the header at the beginning of `bytes`, if it is complete.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, stream @ ..] = bytes.first_chunk::<FRAME_HEADER_BYTES>()?;
        Some(Self {
            length: usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c),
            kind: *kind,
            flags: *flags,
            stream: u32::from_be_bytes(*stream) & (u32::MAX >> 1),
        })
    }

    pub(super) fn begins_block(&self) -> bool {
        self.kind == HEADERS
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// How much of a block has come.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    /// The octets of the block's complete frames.
    pub(super) whole: usize,
    pub(super) frames: usize,
}

pub(super) enum Arrived {
    Whole,
    Partly,
    /// The frames are not those of a block, which ends the connection.
    Wrong,
}

impl Arrival {
    /// Follows the frames of the block at the beginning of `bytes`.
    pub(super) fn follow(&mut self, bytes: &[u8]) -> Arrived {
        loop {
            let rest = bytes.get(self.whole..).unwrap_or_default();
            let (Some(first), Some(frame)) = (Frame::read(bytes), Frame::read(rest)) else {
                return Arrived::Partly;
            };
            let is_next =
                self.frames == 0 || (frame.kind == CONTINUATION && frame.stream == first.stream);
            if !is_next || frame.length > MAX_FRAME_OCTETS {
                return Arrived::Wrong;
            }
            let end = frame.length.saturating_add(FRAME_HEADER_BYTES);
            if rest.len() < end {
                return Arrived::Partly;
            }
            self.whole = self.whole.saturating_add(end);
            self.frames = self.frames.saturating_add(1);
            if frame.has(END_HEADERS) {
                return Arrived::Whole;
            }
        }
    }
}

/// Appends the block that the frames carry. Returns `None` if the padding is longer
/// than its frame.
pub(super) fn block(mut frames: &[u8], block: &mut Vec<u8>) -> Option<()> {
    while let Some(frame) = Frame::read(frames) {
        let end = frame.length.saturating_add(FRAME_HEADER_BYTES);
        let (whole, rest) = frames.split_at_checked(end)?;
        frames = rest;
        let mut part = whole.get(FRAME_HEADER_BYTES..)?;
        if frame.kind == HEADERS {
            let mut padding = 0;
            if frame.has(PADDED) {
                let (length, rest) = part.split_first()?;
                (padding, part) = (usize::from(*length), rest);
            }
            if frame.has(PRIORITY) {
                part = part.get(5..)?;
            }
            part = part.get(..part.len().checked_sub(padding)?)?;
        }
        block.extend_from_slice(part);
    }
    Some(())
}

/// Writes a block in as few frames as possible.
pub(super) fn write(first: Frame, block: &[u8], into: &mut BytesMut) {
    let (mut kind, mut flags) = (HEADERS, first.flags & END_STREAM);
    let mut rest = block;
    loop {
        let (part, after) = rest
            .split_at_checked(MAX_FRAME_OCTETS)
            .unwrap_or((rest, &[]));
        rest = after;
        if rest.is_empty() {
            flags |= END_HEADERS;
        }
        let [.., a, b, c] = part.len().to_be_bytes();
        into.extend_from_slice(&[a, b, c, kind, flags]);
        into.extend_from_slice(&first.stream.to_be_bytes());
        into.extend_from_slice(part);
        (kind, flags) = (CONTINUATION, 0);
        if rest.is_empty() {
            return;
        }
    }
}
