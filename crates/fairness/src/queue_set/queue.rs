//! One queue of a set: what waits in it, and what executes from it.

use std::collections::BTreeMap;

use super::request::RequestId;
use crate::seat_seconds::SeatSeconds;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Requests that wait, oldest first.
    pub waiting: BTreeMap<u64, RequestId>,
    /// The sums of the requests that wait: what they take when they begin, at
    /// most, and in all.
    pub initial_seats: usize,
    pub max_seats: usize,
    pub total_work: SeatSeconds,
    /// The requests that execute, without those in their additional latency.
    pub executing: usize,
    /// The seats of requests that execute or are in their additional latency.
    pub seats_in_use: usize,
    /// The reading of the progress meter at which the next request is
    /// dispatched in the virtual world.
    pub next_dispatch: SeatSeconds,
}

impl Queue {
    /// Tells whether the queue has requests in the virtual world.
    pub(super) fn is_active(&self) -> bool {
        !self.waiting.is_empty() || self.executing > 0
    }

    /// Tells whether nothing belongs to the queue any more.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_active() && self.seats_in_use == 0
    }

    pub(super) fn oldest(&self) -> Option<RequestId> {
        self.waiting.first_key_value().map(|(_, id)| *id)
    }
}
