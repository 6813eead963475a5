//! The next step of a watch, or the reason for its end.

use bytes::Bytes;

use crate::store::Evicted;

/// The next step of a watch.
#[derive(Debug)]
pub enum Step {
    /// Hands out whole frames, and the number of events in them.
    Batch(Bytes, usize),
    /// Lets other tasks have their turn first.
    Again,
    /// Waits until [`Watch::changed`](super::Watch::changed).
    Idle,
}

/// Why there are no more events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// The watch's time is up.
    Timeout,
    /// The watcher was too slow. The events that it needed are no longer in the
    /// history.
    FellBehind,
    /// The resource, or the view of it, is not served any more.
    Closed,
    /// An object cannot be written in the requested representation.
    NotEncodable,
    /// The watch could not begin at its version, and has told the client.
    Expired,
    /// The watcher is a cache, and a part of the history is unknown here.
    Resynced,
}

impl WatchEnd {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::FellBehind => "fell_behind",
            Self::Closed => "closed",
            Self::NotEncodable => "not_encodable",
            Self::Expired => "expired",
            Self::Resynced => "resynced",
        }
    }
}

impl From<Evicted> for WatchEnd {
    fn from(_: Evicted) -> Self {
        Self::FellBehind
    }
}
