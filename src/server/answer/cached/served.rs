//! A read that was answered from the cache.

use apifront_watch_cache::read::BypassReason;
use apifront_watch_cache::watch::Watch;
use http::HeaderValue;
use kubernetes_wire::api::Status;

use crate::server::answer::cpu_offload::Unmade;
use crate::server::answer::respond::Answer;

/// A read that could be made of the store.
pub(super) enum Served {
    Answer(Answer),
    /// The object or state that was asked for is not there; `Some`: at this
    /// version.
    Status(Status, Vec<HeaderValue>, Option<u64>),
    /// 429 as the in-flight filter says it: no Status.
    Overloaded,
    Watch(Box<Watch>, Vec<HeaderValue>),
}

impl Unmade {
    pub(super) fn served(self) -> Result<Served, BypassReason> {
        match self {
            Self::Bypass(reason) => Err(reason),
            Self::Overloaded => Ok(Served::Overloaded),
        }
    }
}
