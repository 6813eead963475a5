//! The answer to a read from the cache.

use apifront_watch_cache::read::BypassReason;
use apifront_watch_cache::watch::Watch;
use http::HeaderValue;
use kubernetes_wire::api::Status;

use crate::server::answer::cpu_offload::OffloadRefusal;
use crate::server::answer::respond::Answer;

/// The result of a read that the cache could answer.
pub(super) enum Served {
    Answer(Answer),
    /// A failure, with its warnings. If a state of the cache shows the failure,
    /// the version is that of the state.
    Status(Status, Vec<HeaderValue>, Option<u64>),
    /// No server has such a path: the resource has no namespaces.
    NoSuchResource,
    /// The time limit of the request has passed. kube-apiserver answers outside of
    /// its flow control then.
    TimedOut(Status),
    /// The 429 of the in-flight filter, which is not a Status.
    Overloaded,
    Watch(Box<Watch>, Vec<HeaderValue>),
}

impl OffloadRefusal {
    pub(super) fn served(self) -> Result<Served, BypassReason> {
        match self {
            Self::Bypass(reason) => Err(reason),
            Self::Overloaded => Ok(Served::Overloaded),
        }
    }
}
