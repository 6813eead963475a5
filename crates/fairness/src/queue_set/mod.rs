//! Fair queuing of one level's requests (k8s.io/apiserver
//! `util/flowcontrol/fairqueuing/queueset`).
//!
//! In a virtual world all active queues have the same number of seats, and the
//! progress meter R tells how many seat-seconds each of them has had. In the
//! real world the queue is served whose oldest request would finish first in
//! the virtual one. How long a request will execute is not known, so each is
//! taken for one of [`ESTIMATED_SERVICE`]; at its end the queue's place in
//! virtual time is put right.
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

pub(crate) mod config;
mod dispatch;
pub(crate) mod dump;
mod end;
mod queue;
pub(crate) mod reading;
pub(crate) mod request;
mod start;
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
use config::{Dispatching, Queuing};
use end::Lingering;
use queue::Queue;
use request::Requests;
pub(crate) use start::Started;
use statistics::Statistics;

/// For how long a request is expected to execute. Other numbers would change
/// who comes first for a moment, but not who has how much in the long run.
const ESTIMATED_SERVICE: Duration = Duration::from_millis(3);

/// One level's queues and seats.
#[derive(Debug)]
pub(crate) struct QueueSet {
    queuing: Queuing,
    dispatching: Dispatching,
    /// More than are wanted while the others drain. There are none before the
    /// first configuration with queues.
    queues: Vec<Queue>,
    /// The length of a queue in the last configuration that had queues.
    length_limit: usize,
    requests: Requests,
    /// The queues in which requests wait.
    waiting_queues: BTreeSet<usize>,
    active_queues: usize,
    /// The queue that was dispatched from last.
    robin: usize,
    hands: Hands,
    /// How many requests have been dealt a hand.
    dealt: u64,
    waiting_requests: usize,
    waiting_seats: usize,
    executing_requests: usize,
    /// The seats of requests that execute or are in their additional latency.
    seats_in_use: usize,
    /// Those of them that belong to no queue.
    queueless_seats: usize,
    lingering: BTreeMap<(Time, u64), Lingering>,
    /// The next number in the order of arrivals.
    next_order: u64,
    /// The progress meter, and when it was read.
    r: SeatSeconds,
    read_at: Time,
    demand: Integrator,
    statistics: Statistics,
    /// The waiting requests that execute now, and do not know it yet.
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

    /// Puts a configuration in force. Requests that wait keep their places, and
    /// queues that are too many vanish once nothing is in them.
    pub(crate) fn configure(&mut self, now: Time, queuing: Queuing, dispatching: Dispatching) {
        self.advance(now);
        if let Queuing::Queues { queues, .. } = queuing
            && queues > self.queues.len()
        {
            self.queues.resize_with(queues, Queue::default);
        }
        // Without queues, those that wait from before are measured against one.
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

    /// Takes up which schemas lead to this level.
    pub(crate) fn set_schemas(&mut self, names: &[&str]) {
        self.statistics.schemas.configure(names);
    }

    fn queue(&self, at: usize) -> Option<&Queue> {
        self.queues.get(at)
    }

    /// Changes a queue, and counts it among the active ones if it is.
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

    /// Removes queues that are not wanted any more, from the end, as far as
    /// nothing belongs to them.
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

    /// Returns the demand since the last call.
    pub(crate) fn take_demand(&mut self, now: Time) -> Moments {
        self.demand.reset(now)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting_requests == 0 && self.executing_requests == 0
    }

    /// Returns how long a request waited that executes now.
    #[cfg(test)]
    pub(crate) fn waited(&self, id: request::RequestId) -> Duration {
        let times = self.requests.get(id).map(|r| (r.arrival, r.started));
        match times {
            Some((arrival, Some(started))) => started.since(arrival),
            _ => Duration::ZERO,
        }
    }

    /// Returns when the next additional latency ends.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.lingering.first_key_value().map(|((due, _), _)| *due)
    }

    /// Returns those who are to hear that their requests execute. They are told
    /// when the lock is free again.
    pub(crate) fn take_granted(&mut self) -> Vec<oneshot::Sender<()>> {
        std::mem::take(&mut self.granted)
    }
}
