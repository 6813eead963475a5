//! A body as pieces ready for the socket.

use bytes::{Bytes, BytesMut};

/// Small parts of a body are copied together into pieces of this size: pingora
/// writes each piece on its own, and thousands of small ones cost it five times
/// the CPU.
const PIECE_BYTES: usize = 256 << 10;

/// From here on, bytes are a piece of their own: a write costs less than
/// copying as much.
pub(super) const SHARED_BYTES: usize = 128 << 10;

/// What is larger is handed out in slices, so that no connection has to take
/// an unbounded piece at once.
pub(super) const LARGEST_PIECE_BYTES: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Pieces {
    done: Vec<Bytes>,
    current: BytesMut,
    /// What the next piece is expected to hold.
    expected: usize,
    has_items: bool,
}

impl Pieces {
    /// For a body of this length. Small ones are many: they must not each take
    /// a whole piece's memory.
    pub(super) fn new(length: usize) -> Self {
        Self {
            expected: length.min(PIECE_BYTES),
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.current.len() + bytes.len() > PIECE_BYTES && !self.current.is_empty() {
            self.flush();
            self.expected = PIECE_BYTES;
        }
        if self.current.is_empty() {
            self.current.reserve(self.expected.max(bytes.len()));
        }
        self.current.extend_from_slice(bytes);
    }

    /// Without a copy, if that is worth it.
    pub(super) fn share(&mut self, mut bytes: Bytes) {
        if bytes.len() < SHARED_BYTES {
            return self.push(&bytes);
        }
        self.flush();
        self.expected = 0;
        while bytes.len() > LARGEST_PIECE_BYTES {
            self.done.push(bytes.split_to(LARGEST_PIECE_BYTES));
        }
        self.done.push(bytes);
    }

    /// What is pushed next is an item, after a comma if it is not the first.
    pub(super) fn next_item(&mut self) {
        if std::mem::replace(&mut self.has_items, true) {
            self.push(b",");
        }
    }

    fn flush(&mut self) {
        if !self.current.is_empty() {
            self.done.push(self.current.split().freeze());
        }
    }

    pub(super) fn finish(mut self) -> Vec<Bytes> {
        self.flush();
        self.done
    }
}
