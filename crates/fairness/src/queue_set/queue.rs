//! One queue of a set: the requests that wait in it, and those that execute from
//! it.

use std::collections::BTreeMap;

use super::request::RequestId;
use crate::seat_seconds::SeatSeconds;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Requests that wait, oldest first.
    pub waiting: BTreeMap<u64, RequestId>,
    /// The sums over the requests that wait: of the seats at their beginning, of
    /// their most seats, and of their work.
    pub initial_seats: usize,
    pub max_seats: usize,
    pub total_work: SeatSeconds,
    /// The requests that execute, without those in their additional latency.
    pub executing: usize,
    /// The seats of requests that execute or are in their additional latency.
    pub seats_in_use: usize,
    /// The value of the progress meter at which the next request is dispatched in
    /// the virtual world.
    pub next_dispatch: SeatSeconds,
}

impl Queue {
    /// Tells whether the queue has requests in the virtual world.
    pub(super) fn is_active(&self) -> bool {
        !self.waiting.is_empty() || self.executing > 0
    }

    /// Tells whether the queue has no requests and no seats in use.
    pub(super) fn is_idle(&self) -> bool {
        !self.is_active() && self.seats_in_use == 0
    }

    pub(super) fn oldest(&self) -> Option<RequestId> {
        self.waiting.first_key_value().map(|(_, id)| *id)
    }
}
