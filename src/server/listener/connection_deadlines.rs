//! The times that clients have, and the reasons why connections end. `http1.rs` and
//! `http2.rs` end them.

use std::time::Duration;

use super::head::HeadRefusal;

/// How long a client may take to send something.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct Deadlines {
    /// The time for the TLS handshake, for the first request's header, and for the
    /// header of each later request.
    pub(in crate::server) header: Duration,
    /// The time between requests; in HTTP/2, the time while no stream is open.
    pub(in crate::server) idle: Duration,
}

impl Deadlines {
    pub(in crate::server) fn shortest(self) -> Duration {
        self.header.min(self.idle)
    }

    /// Returns the longest time from the end of a request to the end of the next
    /// request's header.
    pub(in crate::server) fn idle_and_header(self) -> Duration {
        self.idle.saturating_add(self.header)
    }
}

/// The reason why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Ended {
    /// The client closed the connection, or the connection ended with its last
    /// answer, or it never began.
    ByClient,
    HandshakeTimeout,
    HeaderTimeout,
    Idle,
    /// The client sent too many frames or streams that ask for nothing.
    Flood,
    Unauthenticated,
    /// The client may find another replica: `serving.goawayChance`.
    GoAwayChance,
    /// The head of a request was refused, and the client was told.
    Refused(HeadRefusal),
}

impl Ended {
    /// Returns the metric's label, or `None` if apifront did not end the
    /// connection.
    pub(in crate::server) fn reason(self) -> Option<&'static str> {
        Some(match self {
            Self::ByClient => return None,
            Self::HandshakeTimeout => "handshake-timeout",
            Self::HeaderTimeout => "header-timeout",
            Self::Idle => "idle",
            Self::Flood => "flood",
            Self::Unauthenticated => "unauthenticated",
            Self::GoAwayChance => "goaway-chance",
            Self::Refused(HeadRefusal::TooLarge | HeadRefusal::TargetTooLong) => "large-head",
            Self::Refused(HeadRefusal::TooManyLarge) => "large-heads",
            Self::Refused(_) => "malformed-head",
        })
    }
}
