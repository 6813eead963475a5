//! A request that waits for its seats.

use std::time::Duration;

use apifront_fairness::{Classification, QueuedRequest};

use super::{Admitted, Flow, Refused, RequestKind};

/// The start of a request that is not refused at once.
pub enum Started<'a> {
    Admitted(Admitted),
    Waits(Waiting<'a>),
}

/// A place in a queue. Dropping it leaves the queue.
pub struct Waiting<'a> {
    pub(super) flow: &'a Flow,
    pub(super) kind: RequestKind,
    pub(super) class: &'a Classification,
    pub(super) queued: QueuedRequest,
}

impl Waiting<'_> {
    pub fn kind(&self) -> RequestKind {
        self.kind
    }

    /// Waits for the seats. `within` is the request's own time limit. Cancel-safe.
    pub async fn seats(self, within: Option<Duration>) -> Result<Admitted, Refused> {
        let most = self.flow.limits.load().queue_wait;
        // kube-apiserver lets such a request wait as long.
        let own = within.and_then(|within| within.checked_div(4));
        let most = own.map_or(most, |own| own.min(most));
        match self.queued.seats(most).await {
            Ok(seats) => Ok(self.flow.seated(self.kind, seats)),
            Err(_) => Err(self.flow.refused(self.class)),
        }
    }
}
