//! Fair queuing of one level's requests (k8s.io/apiserver
//! `util/flowcontrol/fairqueuing/queueset`).
//!
//! In a virtual world all active queues have the same number of seats. The progress
//! meter R is the number of seat-seconds that each of them has had. In the real
//! world, the next request comes from the queue whose oldest request would finish
//! first in the virtual one. The duration of a request is not known in advance, so
//! [`ESTIMATED_SERVICE`] stands for it; when the request ends, its queue's place in
//! virtual time is corrected.
//!
//! A set has no lock, no clock and no task: `level.rs` has them.
//!
//! ```text
//!                  ┌────────────── start: no seats, no queues, or a full one ─▶ rejected
//!                  │
//!   start ─────────┼─ dispatch ─▶ executing ─ finish ─▶ lingering ─ due ─▶ gone
//!                  │    ▲                       │  (additional latency)
//!                  ▼    │                       └─ (none) ───────────────▶ gone
//!               waiting ┴─ leave ─▶ rejected
//! ```

mod admission;
pub(crate) mod config;
mod dispatch;
pub(crate) mod dump;
mod end;
mod queue;
mod queue_choice;
pub(crate) mod reading;
pub(crate) mod request;
pub(crate) mod statistics;
#[cfg(test)]
mod tests;
mod virtual_time;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Time;
use crate::integrator::{Integrator, Moments};
use crate::seat_seconds::SeatSeconds;
use crate::shuffle_sharding::Hands;
pub(crate) use admission::Started;
use config::{Dispatching, Queuing};
use end::Lingering;
use queue::Queue;
use request::Requests;
use statistics::Statistics;

/// The expected duration of a request. Another value would change which request
/// comes first for a moment, but not the shares in the long run.
const ESTIMATED_SERVICE: Duration = Duration::from_millis(3);

#[derive(Debug)]
pub(crate) struct QueueSet {
    queuing: Queuing,
    dispatching: Dispatching,
    /// There are more than configured while surplus queues drain, and none before
    /// the first configuration with queues.
    queues: Vec<Queue>,
    /// The limit of a queue's length in the last configuration that had queues.
    length_limit: usize,
    requests: Requests,
    waiting_queues: BTreeSet<usize>,
    active_queues: usize,
    /// The queue from which a request was dispatched last.
    robin: usize,
    hands: Hands,
    /// The number of requests that have been dealt a hand.
    dealt: u64,
    waiting_requests: usize,
    waiting_seats: usize,
    executing_requests: usize,
    /// The seats of requests that execute or are in their additional latency.
    seats_in_use: usize,
    /// The part of `seats_in_use` that belongs to no queue.
    queueless_seats: usize,
    lingering: BTreeMap<(Time, u64), Lingering>,
    /// The next number in the order of arrival.
    next_order: u64,
    /// The progress meter, and the time of its reading.
    r: SeatSeconds,
    read_at: Time,
    demand: Integrator,
    statistics: Statistics,
    /// Signals to waiting requests that execute now and have not been told yet.
    granted: Vec<oneshot::Sender<()>>,
}

impl QueueSet {
    pub(crate) fn new(now: Time) -> Self {
        Self {
            queuing: Queuing::Reject,
            dispatching: Dispatching {
                limit: 0,
                denominator: 1,
            },
            queues: Vec::new(),
            length_limit: 1,
            requests: Requests::default(),
            waiting_queues: BTreeSet::new(),
            active_queues: 0,
            robin: 0,
            hands: Hands::default(),
            dealt: 0,
            waiting_requests: 0,
            waiting_seats: 0,
            executing_requests: 0,
            seats_in_use: 0,
            queueless_seats: 0,
            lingering: BTreeMap::new(),
            next_order: 0,
            r: SeatSeconds::default(),
            read_at: now,
            demand: Integrator::new(now),
            statistics: Statistics::new(now),
            granted: Vec::new(),
        }
    }

    /// Puts a configuration in force. Waiting requests keep their places, and
    /// surplus queues are removed once they are empty.
    pub(crate) fn configure(&mut self, now: Time, queuing: Queuing, dispatching: Dispatching) {
        self.advance(now);
        if let Queuing::Queues { queues, .. } = queuing
            && queues > self.queues.len()
        {
            self.queues.resize_with(queues, Queue::default);
        }
        // Without queues, requests that still wait are measured against one queue.
        let capacity = match queuing {
            Queuing::Queues {
                queues,
                length_limit,
                ..
            } => {
                self.length_limit = length_limit.max(1);
                queues.saturating_mul(self.length_limit)
            }
            Queuing::Exempt | Queuing::Reject => self.length_limit,
        };
        self.queuing = queuing;
        self.dispatching = dispatching;
        self.drop_idle_queues();
        let statistics = &mut self.statistics;
        statistics.waiting.set_denominator(now, capacity);
        for ratio in [&mut statistics.executing, &mut statistics.seats] {
            ratio.set_denominator(now, dispatching.denominator);
        }
        statistics
            .demand
            .set_denominator(now, dispatching.denominator);
        self.dispatch_as_much_as_possible(now);
    }

    /// Notes which schemas lead to this level.
    pub(crate) fn set_schemas(&mut self, names: &[&str]) {
        self.statistics.schemas.configure(names);
    }

    fn queue(&self, at: usize) -> Option<&Queue> {
        self.queues.get(at)
    }

    /// Changes a queue, and updates the number of active queues.
    fn change_queue(&mut self, at: usize, change: impl FnOnce(&mut Queue)) {
        let Some(queue) = self.queues.get_mut(at) else {
            return;
        };
        let was_active = queue.is_active();
        change(queue);
        match (was_active, queue.is_active()) {
            (false, true) => self.active_queues = self.active_queues.saturating_add(1),
            (true, false) => self.active_queues = self.active_queues.saturating_sub(1),
            _ => {}
        }
    }

    /// Removes surplus queues from the end, up to the last one that is still in
    /// use.
    fn drop_idle_queues(&mut self) {
        let wanted = match self.queuing {
            Queuing::Queues { queues, .. } => queues,
            Queuing::Exempt | Queuing::Reject => 0,
        };
        while self.queues.len() > wanted && self.queues.last().is_some_and(Queue::is_idle) {
            self.queues.pop();
        }
    }

    fn note_demand(&mut self, now: Time) {
        let demand = self.seats_in_use.saturating_add(self.waiting_seats);
        self.demand.set(now, demand as f64);
        self.statistics.demand.set(now, demand);
    }

    #[cfg(test)]
    pub(crate) fn set_demand(&mut self, now: Time, seats: f64) {
        self.demand.set(now, seats);
    }

    pub(crate) fn take_demand(&mut self, now: Time) -> Moments {
        self.demand.reset(now)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting_requests == 0 && self.executing_requests == 0
    }

    pub(crate) fn waiting_requests(&self) -> usize {
        self.waiting_requests
    }

    /// Returns how long a request that executes now had to wait.
    #[cfg(test)]
    pub(crate) fn waited(&self, id: request::RequestId) -> Duration {
        let times = self.requests.get(id).map(|r| (r.arrival, r.started));
        match times {
            Some((arrival, Some(started))) => started.since(arrival),
            _ => Duration::ZERO,
        }
    }

    pub(crate) fn next_due(&self) -> Option<Time> {
        self.lingering.first_key_value().map(|((due, _), _)| *due)
    }

    /// Returns the signals to requests that execute now. They are sent after the
    /// lock is released.
    pub(crate) fn take_granted(&mut self) -> Vec<oneshot::Sender<()>> {
        std::mem::take(&mut self.granted)
    }
}
