//! A body as pieces of memory. Where possible, pieces refer to memory that
//! exists anyway, so that an answer on its way does not hold a second copy of
//! the whole body.

use bytes::{Bytes, BytesMut};

/// Fewer bytes than these are copied, because a reference would cost as much.
const SHARED_BYTES: usize = 512;

/// Copied bytes are collected in chunks. Each chunk is twice as large as the
/// one before.
const FIRST_CHUNK: usize = 4 << 10;
const LARGEST_CHUNK: usize = 256 << 10;

#[derive(Default)]
pub(super) struct Pieces {
    done: Vec<Bytes>,
    /// The bytes copied since the last piece of `done`.
    current: BytesMut,
    chunk: usize,
    has_items: bool,
}

impl Pieces {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = self.current.capacity().saturating_sub(self.current.len());
        if room < bytes.len() {
            self.flush();
            self.chunk = self
                .chunk
                .saturating_mul(2)
                .clamp(FIRST_CHUNK, LARGEST_CHUNK);
            self.current = BytesMut::with_capacity(self.chunk.max(bytes.len()));
        }
        self.current.extend_from_slice(bytes);
    }

    /// Adds bytes. Short ones are copied.
    pub(super) fn share(&mut self, bytes: Bytes) {
        if bytes.len() < SHARED_BYTES {
            return self.push(&bytes);
        }
        self.flush();
        self.done.push(bytes);
    }

    /// Does the same as [`share`](Self::share) for bytes that may be a slice of
    /// `owner`.
    pub(super) fn share_of(&mut self, owner: &Bytes, bytes: &[u8]) {
        let (whole, part) = (owner.as_ptr_range(), bytes.as_ptr_range());
        let is_part = whole.start <= part.start && part.end <= whole.end;
        if is_part && bytes.len() >= SHARED_BYTES {
            self.share(owner.slice_ref(bytes));
        } else {
            self.push(bytes);
        }
    }

    /// Begins an item, with a comma if it is not the first.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_parts_are_shared_and_small_ones_copied() {
        let owner = Bytes::from(vec![b'o'; 3000]);
        let mut pieces = Pieces::new();
        pieces.push(b"[");
        for n in 0..3 {
            pieces.next_item();
            pieces.share_of(&owner, &owner[n * 1000..][..1000]);
            pieces.share_of(&owner, &owner[n..][..10]);
            pieces.share_of(&owner, &[b'f'; 600]);
        }
        pieces.share(owner.slice(5..7));
        pieces.push(&[b'x'; LARGEST_CHUNK + 1]);
        let pieces = pieces.finish();
        let shared: Vec<usize> = pieces
            .iter()
            .filter(|p| owner.as_ptr_range().contains(&p.as_ptr()))
            .map(Bytes::len)
            .collect();
        assert_eq!(shared, [1000; 3]);
        let item = format!("{}{}", "o".repeat(1010), "f".repeat(600));
        let x = "x".repeat(LARGEST_CHUNK + 1);
        let expected = format!("[{item},{item},{item}oo{x}");
        assert!(pieces.concat() == expected.as_bytes());
    }
}
