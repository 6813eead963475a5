//! The chunks in which a body is written.

use std::vec::IntoIter;

use bytes::{Bytes, BytesMut};

/// The size up to which small pieces are joined. pingora writes each piece by
/// itself, and thousands of small pieces cost it five times the CPU.
const WRITTEN_BYTES: usize = 256 << 10;

/// A piece of this size or more is written as it is, because a write costs less than
/// copying this much.
const LARGE_BYTES: usize = 128 << 10;

/// The size of the largest chunk. A larger piece is written in slices, so that no
/// connection must take an unbounded piece at once.
const LARGEST_BYTES: usize = 1 << 20;

/// The chunks of a body. Only one chunk takes memory at a time, however long the
/// body is.
pub(in crate::server) struct BodyChunks {
    pieces: IntoIter<Bytes>,
    next: Bytes,
    /// The bytes still to come.
    left: usize,
}

impl BodyChunks {
    pub(in crate::server) fn new(body: Vec<Bytes>) -> Self {
        Self {
            left: body.iter().map(Bytes::len).sum(),
            pieces: body.into_iter(),
            next: Bytes::new(),
        }
    }

    pub(in crate::server) fn is_done(&self) -> bool {
        self.left == 0
    }

    /// Returns the next piece, which is empty only at the end.
    fn peek(&mut self) -> &mut Bytes {
        while self.next.is_empty()
            && let Some(piece) = self.pieces.next()
        {
            self.next = piece;
        }
        &mut self.next
    }
}

impl Iterator for BodyChunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_done() {
            return None;
        }
        let left = self.left;
        let first = self.peek();
        let whole = first.len() == left;
        let write = if whole || first.len() >= LARGE_BYTES {
            first.split_to(first.len().min(LARGEST_BYTES))
        } else {
            let mut write = BytesMut::with_capacity(left.min(WRITTEN_BYTES));
            loop {
                let piece = self.peek();
                let fits = write.len().saturating_add(piece.len()) <= WRITTEN_BYTES;
                if piece.is_empty() || piece.len() >= LARGE_BYTES || !fits {
                    break write.freeze();
                }
                write.extend_from_slice(&std::mem::take(piece));
            }
        };
        self.left = self.left.saturating_sub(write.len());
        Some(write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pieces_are_joined_and_large_ones_cut() {
        for sizes in [
            &[][..],
            &[0],
            &[1],
            &[0, 1, 0],
            &[1, 2, 3],
            &[LARGE_BYTES - 1, LARGE_BYTES - 1, 3],
            &[1, LARGE_BYTES, 1],
            &[1, LARGEST_BYTES * 2 + 1],
            &[LARGEST_BYTES, 0, 0],
            &[1000; 1000],
        ] {
            let body: Vec<Bytes> = sizes
                .iter()
                .enumerate()
                .map(|(n, size)| Bytes::from(vec![n as u8; *size]))
                .collect();
            let mut writes = BodyChunks::new(body.clone());
            let mut written = Vec::new();
            let mut count = 0;
            while let Some(write) = writes.next() {
                assert!(!write.is_empty() && write.len() <= LARGEST_BYTES);
                written.extend_from_slice(&write);
                assert_eq!(
                    writes.is_done(),
                    written.len() == sizes.iter().sum::<usize>()
                );
                count += 1;
            }
            assert!(written == body.concat(), "{sizes:?}");
            assert!(
                count <= 2 + written.len() / LARGE_BYTES * 2,
                "{count} of {sizes:?}"
            );
        }
        // A large piece is not copied.
        let large = Bytes::from(vec![7; LARGE_BYTES]);
        let writes: Vec<Bytes> =
            BodyChunks::new(vec![Bytes::from_static(b"a"), large.clone()]).collect();
        assert_eq!(writes[1].as_ptr(), large.as_ptr());
    }
}
