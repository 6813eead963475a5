//! Joins frames to a batch, and compresses frames as gzip members.

use bytes::{Bytes, BytesMut};
use kubernetes_wire::representation::deflate;

pub(super) fn compressed(frames: &Bytes) -> Option<Bytes> {
    deflate::gzip(&[frames]).map(Bytes::from)
}

/// Returns the frame, as a gzip member if it `compresses`.
pub(super) fn packed(frame: Bytes, compresses: bool) -> Option<Bytes> {
    match compresses {
        true => compressed(&frame),
        false => Some(frame),
    }
}

/// A batch of frames. A single frame is shared as it is, and several frames are
/// joined.
#[derive(Default)]
pub(super) struct Batch {
    first: Option<Bytes>,
    joined: BytesMut,
    events: usize,
}

impl Batch {
    pub(super) fn push(&mut self, frame: Bytes) {
        if self.events == 0 {
            self.first = Some(frame);
            self.events = 1;
        } else {
            self.add().extend_from_slice(&frame);
        }
    }

    pub(super) fn add(&mut self) -> &mut BytesMut {
        self.events = self.events.saturating_add(1);
        if let Some(first) = self.first.take() {
            self.joined.extend_from_slice(&first);
        }
        &mut self.joined
    }

    /// Returns how many bytes the batch may still take below `limit`, if any.
    pub(super) fn room(&self, limit: usize) -> Option<usize> {
        let taken = self.first.as_ref().map_or(self.joined.len(), Bytes::len);
        limit.checked_sub(taken).filter(|left| *left > 0)
    }

    pub(super) fn finish(self) -> Option<(Bytes, usize)> {
        let events = self.events;
        match self.first {
            Some(first) => Some((first, events)),
            None if self.joined.is_empty() => None,
            None => Some((self.joined.freeze(), events)),
        }
    }
}
