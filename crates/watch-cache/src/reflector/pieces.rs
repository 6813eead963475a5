//! Bytes as they arrive from upstream, kept in pieces until their end is known.
//!
//! Pieces never move. One buffer that doubles leaves a dead copy of itself each
//! time, and the allocator returns freed memory only after a while. Several
//! servers that sent without end then had several times `cache.memoryLimit`
//! resident, of which only the live bytes were counted.

use bytes::{Buf, Bytes, BytesMut};

/// The bytes of a piece. Nearly all events, and most pages, are shorter.
const PIECE_BYTES: usize = 1 << 20;

/// The room in a new piece beyond `PIECE_BYTES`, for the chunk that fills it.
const CHUNK_BYTES: usize = 512 << 10;

#[derive(Debug, Default)]
pub(super) struct Pieces {
    full: Vec<BytesMut>,
    full_bytes: usize,
    last: BytesMut,
}

impl Pieces {
    pub(super) fn len(&self) -> usize {
        self.full_bytes.saturating_add(self.last.len())
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        self.last.extend_from_slice(data);
    }

    /// Begins another piece if the last one is full. Nobody searches the full
    /// one again: a caller that looks for something in [`Self::last`] calls
    /// this after the search.
    pub(super) fn go_on(&mut self) {
        if self.last.len() >= PIECE_BYTES {
            let next = BytesMut::with_capacity(PIECE_BYTES.saturating_add(CHUNK_BYTES));
            let full = std::mem::replace(&mut self.last, next);
            self.full_bytes = self.full_bytes.saturating_add(full.len());
            self.full.push(full);
        }
    }

    pub(super) fn first(&self) -> &[u8] {
        self.full.first().unwrap_or(&self.last)
    }

    /// Returns the bytes of the piece that is being filled.
    pub(super) fn last(&self) -> &[u8] {
        &self.last
    }

    /// Removes all full pieces and the first `of_last` bytes of the last piece,
    /// and returns them as one. Each piece is freed as soon as it is copied.
    pub(super) fn take(&mut self, of_last: usize) -> Bytes {
        let rest = self.last.split_to(of_last.min(self.last.len()));
        if self.full.is_empty() {
            return rest.freeze();
        }
        let mut all = Vec::with_capacity(self.full_bytes.saturating_add(rest.len()));
        for piece in std::mem::take(&mut self.full) {
            all.extend_from_slice(&piece);
        }
        all.extend_from_slice(&rest);
        self.full_bytes = 0;
        all.into()
    }

    pub(super) fn skip(&mut self, bytes: usize) {
        self.last.advance(bytes.min(self.last.len()));
    }

    /// Returns all bytes as one. Joins several pieces on a thread that may
    /// block.
    pub(super) async fn join(mut self) -> Bytes {
        let length = self.last.len();
        if self.full.is_empty() {
            return self.take(length);
        }
        let joined = tokio::task::spawn_blocking(move || self.take(length));
        // This fails only when the process ends.
        joined.await.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_more_is_held_than_has_come() {
        let mut pieces = Pieces::default();
        let mut expected = Vec::new();
        for n in 0..700_u32 {
            let chunk = n.to_be_bytes().repeat(4096);
            pieces.push(&chunk);
            pieces.go_on();
            expected.extend_from_slice(&chunk);
            assert_eq!(pieces.len(), expected.len());
            let held = pieces.full.iter().map(BytesMut::capacity).sum::<usize>();
            let held = held + pieces.last.capacity();
            // The first piece grows from nothing, and each piece has room for a
            // chunk.
            assert!(held <= expected.len() * 3 / 2 + 2 * (PIECE_BYTES + CHUNK_BYTES));
        }
        assert_eq!(pieces.first(), &expected[..pieces.first().len()]);
        assert_eq!(pieces.join().await, expected);
    }

    #[test]
    fn what_follows_stays() {
        let mut pieces = Pieces::default();
        for _ in 0..3 {
            pieces.push(&[b'a'; PIECE_BYTES]);
            pieces.go_on();
        }
        pieces.push(b"aab-next");
        assert_eq!(pieces.last(), b"aab-next");
        let taken = pieces.take(3);
        assert_eq!(taken.len(), 3 * PIECE_BYTES + 3);
        assert!(taken.ends_with(b"aab"));
        pieces.skip(1);
        assert_eq!((pieces.len(), pieces.first()), (4, &b"next"[..]));
        assert_eq!(pieces.take(4), "next");
    }
}
