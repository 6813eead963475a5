//! Bodies, held by reference until an event has been made of them.

use apifront_shares::{Limits, Share, Shares};
use bytes::Bytes;

use super::Owner;

/// The most bytes that are held of one body: kube-apiserver's limit for requests (3
/// MiB). Larger bodies are lists, and their events say that they were truncated.
pub const MAX_BODY_BYTES: usize = 3 << 20;

/// The most bytes of all held bodies, those of events that wait to be written
/// included. A body that finds no room in its caller's share is left out, and its
/// event says that it was truncated.
pub const MAX_HELD_BYTES: usize = 64 << 20;

pub(super) type Room = Shares<Owner>;

/// No caller gets more than is still free.
pub(super) fn room() -> Room {
    Shares::new(Limits::shared(MAX_HELD_BYTES))
}

/// One body. It holds no bytes once it is too large.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) is_gzip: bool,
    pieces: Vec<Bytes>,
    held: Share<Owner>,
    is_cut: bool,
}

impl Body {
    pub(super) fn new(is_gzip: bool, room: &Room, owner: Owner) -> Self {
        Self {
            is_gzip,
            pieces: Vec::new(),
            held: room.nothing(owner),
            is_cut: false,
        }
    }

    pub(super) fn push(&mut self, piece: &Bytes) {
        if self.is_cut || piece.is_empty() {
            return;
        }
        let bytes = self.held.amount().saturating_add(piece.len());
        if bytes <= MAX_BODY_BYTES && self.held.grow(piece.len()).is_ok() {
            self.pieces.push(piece.clone());
        } else {
            self.clear();
            self.is_cut = true;
        }
    }

    /// Forgets the bytes so far, because the body is sent again.
    pub(super) fn restart(&mut self) {
        self.clear();
        self.is_cut = false;
    }

    fn clear(&mut self) {
        self.pieces.clear();
        if self.held.amount() > 0 {
            self.held.set(0);
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the whole decompressed body. `None` if it is malformed or too large
    /// when decompressed.
    pub(super) fn whole(&self) -> Option<Vec<u8>> {
        let joined = self.pieces.concat();
        if !self.is_gzip {
            return Some(joined);
        }
        use std::io::Read;
        let mut plain = Vec::new();
        let most = MAX_BODY_BYTES as u64;
        let read = flate2::read::MultiGzDecoder::new(joined.as_slice())
            .take(most.saturating_add(1))
            .read_to_end(&mut plain);
        (read.is_ok() && plain.len() as u64 <= most).then_some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compressed_is_read_but_not_beyond_the_bound() {
        use std::io::Write;
        let gzip = |plain: &[u8]| {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(plain).unwrap();
            let mut body = Body::new(true, &room(), Owner(0));
            body.push(&encoder.finish().unwrap().into());
            body
        };
        assert_eq!(gzip(b"plain").whole().unwrap(), b"plain");
        assert!(gzip(&vec![0; MAX_BODY_BYTES + 1]).whole().is_none());
        let mut cut_off = Body::new(true, &room(), Owner(0));
        cut_off.push(&Bytes::from_static(&[0x1f, 0x8b, 8]));
        assert!(cut_off.whole().is_none());
    }

    #[test]
    fn what_is_too_large_is_let_go() {
        let room = room();
        let mut body = Body::new(false, &room, Owner(0));
        body.push(&Bytes::from_static(b"{\"a\""));
        body.push(&Bytes::from_static(b":1}"));
        assert_eq!(body.whole().unwrap(), b"{\"a\":1}");
        assert_eq!(room.held(), 7);
        body.push(&Bytes::from(vec![0; MAX_BODY_BYTES]));
        assert!(body.is_cut());
        assert_eq!(room.held(), 0);
        body.restart();
        body.push(&Bytes::from_static(b"x"));
        assert_eq!((body.is_cut(), room.held()), (false, 1));
        drop(body);
        assert_eq!(room.held(), 0);

        let mut bodies = Vec::new();
        let mut push = |owner| {
            let mut body = Body::new(false, &room, owner);
            body.push(&Bytes::from(vec![0; MAX_BODY_BYTES]));
            bodies.push(body);
            bodies.last().is_some_and(Body::is_cut)
        };
        // One caller's bodies leave room for another's.
        let cut = (0..50).filter(|_| push(Owner(1))).count();
        assert!(cut > 50 - MAX_HELD_BYTES / MAX_BODY_BYTES, "{cut}");
        assert!(!push(Owner(2)));
    }
}
