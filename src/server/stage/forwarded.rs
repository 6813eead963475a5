//! A request on its way to an API server.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apifront_upstream::{Endpoint, Upstream};
use apifront_watch_cache::read::{OpenWrite, WrittenVersion};

use super::granted::Granted;
use super::identified::Identified;

/// The server that authorizes the request.
pub(in crate::server) enum Authority {
    /// The API server, which is told the caller's name and authorizes the request
    /// itself.
    Upstream(Arc<Identified>),
    /// apifront itself. A backend trusts that every caller who is passed on to it is
    /// authorized.
    Backend(Arc<Granted>),
}

pub(in crate::server) struct Forward {
    authority: Authority,
    pub(in crate::server) upstream: Arc<Upstream>,
    pub(in crate::server) tried: Vec<Arc<Endpoint>>,
    pub(in crate::server) long_running: bool,
    /// Whether pieces of the body were read before the request was forwarded.
    pub(in crate::server) replays: bool,
    /// Whether upstream may have acted on the request without saying so.
    pub(in crate::server) outcome_unknown: bool,
    /// The time at which an API server was asked, or was about to be asked.
    pub(in crate::server) asked: Option<Instant>,
    /// The time at which upstream's answer began.
    pub(in crate::server) answered: Option<Instant>,
    /// A write that has succeeded, while its answer is passed on.
    pub(in crate::server) write: Option<(OpenWrite, WrittenVersion)>,
}

impl Forward {
    pub(in crate::server) fn new(authority: Authority) -> Self {
        let upstream = match authority.remote() {
            Some(remote) => remote.backend.upstream.load_full(),
            None => authority.generation().upstream.load_full(),
        };
        Self {
            upstream,
            tried: Vec::new(),
            long_running: authority.info().is_long_running(),
            replays: false,
            outcome_unknown: false,
            asked: None,
            answered: None,
            write: None,
            authority,
        }
    }

    /// Returns the time that upstream took to begin its answer, or to fail.
    pub(in crate::server) fn took(&self) -> Option<Duration> {
        let answered = self.answered.unwrap_or_else(Instant::now);
        self.asked
            .map(|asked| answered.saturating_duration_since(asked))
    }
}

impl Deref for Authority {
    type Target = Identified;

    fn deref(&self) -> &Identified {
        match self {
            Self::Upstream(identified) => identified,
            Self::Backend(granted) => granted,
        }
    }
}

impl Deref for Forward {
    type Target = Identified;

    fn deref(&self) -> &Identified {
        &self.authority
    }
}
