//! The result of a read from the cache.

use apifront_watch_cache::read::BypassReason;
use apifront_watch_cache::watch::Watch;
use http::HeaderValue;
use kubernetes_wire::api::Status;

use crate::server::offload::OffloadRefusal;
use crate::server::reply::answer::Answer;
use crate::server::reply::watch_stream::WatchHead;
use crate::server::stage::context::Hit;

/// The result of a read that the cache could answer.
pub(super) enum Served {
    Answer(Answer),
    /// A failure with its warnings. The `Hit` is set if a state of the cache shows
    /// the failure.
    Status(Status, Vec<HeaderValue>, Option<Hit>),
    /// No server has this path, because the resource has no namespaces.
    NoSuchResource,
    /// The time limit of the request has passed. In this case, kube-apiserver
    /// answers outside of its flow control.
    TimedOut(Status),
    /// The 429 of the in-flight filter, which is not a Status.
    Overloaded,
    Watch(Box<Watch>, WatchHead),
}

impl OffloadRefusal {
    pub(super) fn served(self) -> Result<Served, BypassReason> {
        match self {
            Self::Bypass(reason) => Err(reason),
            Self::Overloaded => Ok(Served::Overloaded),
        }
    }
}
