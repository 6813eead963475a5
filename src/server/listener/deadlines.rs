//! The time that a client may take, and why its connection ended.

use std::time::Duration;

/// How long a client may take for what it has to send.
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

    /// The time from the end of a request to the end of the next one's header.
    pub(in crate::server) fn idle_and_header(self) -> Duration {
        self.idle.saturating_add(self.header)
    }
}

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum Ended {
    /// The client closed it, or it ended with its last answer, or it never began.
    ByClient,
    HandshakeTimeout,
    HeaderTimeout,
    Idle,
    /// Frames or streams that ask for nothing.
    Flood,
    Unauthenticated,
}

impl Ended {
    /// The metric's label; `None` where apifront did not end it.
    pub(in crate::server) fn reason(self) -> Option<&'static str> {
        Some(match self {
            Self::ByClient => return None,
            Self::HandshakeTimeout => "handshake-timeout",
            Self::HeaderTimeout => "header-timeout",
            Self::Idle => "idle",
            Self::Flood => "flood",
            Self::Unauthenticated => "unauthenticated",
        })
    }
}
