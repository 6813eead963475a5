//! The beginning of a request: it executes, waits or is refused.

use tokio::sync::oneshot;

use super::config::Queuing;
use super::request::{Request, RequestId};
use super::{ESTIMATED_SERVICE, QueueSet};
use crate::classification::Classification;
use crate::clock::Time;
use crate::rejected::Rejected;
use crate::seat_seconds::SeatSeconds;
use crate::width::Width;

/// The most requests that wait in one level. This bound is needed because the limit
/// of a queue's length does not hold while some seats are free but too few for the
/// oldest request.
const MOST_WAITING: usize = 65_536;

/// The result of a request's start.
#[derive(Debug)]
pub(crate) enum Started {
    Executing(RequestId),
    /// The receiver is notified when the request executes.
    Waiting(RequestId, oneshot::Receiver<()>),
    Rejected(Rejected),
}

impl QueueSet {
    pub(crate) fn start(&mut self, now: Time, class: &Classification, width: Width) -> Started {
        self.advance(now);
        let schemas = &mut self.statistics.schemas;
        let schema = schemas.place(&class.schema().name, class.schema().place());
        class.schema().set_place(schema);
        let seats = width.max_seats();
        if let Some(schema) = schemas.get_mut(schema) {
            schema.estimated_seats.observe(seats as f64);
        }
        let (dealer, length_limit) = match self.queuing {
            Queuing::Queues {
                dealer,
                length_limit,
                ..
            } => (dealer, length_limit),
            Queuing::Exempt | Queuing::Reject => {
                return self.start_sans_queue(now, class, schema, width);
            }
        };
        let queue = self.choose_queue(&dealer, class.flow());
        let length = self.queue(queue).map_or(0, |queue| queue.waiting.len());
        let is_full = self.seats_in_use >= self.dispatching.limit && length >= length_limit;
        if is_full || self.waiting_requests >= MOST_WAITING {
            return self.reject_at_once(schema, Rejected::QueueFull);
        }
        let request = self.request(now, class, schema, width, Some(queue));
        if self.waiting_requests == 0
            && self.seats_in_use < self.dispatching.limit
            && self.can_accommodate(seats)
        {
            return Started::Executing(self.execute_at_once(now, queue, request));
        }
        let (id, receiver) = self.enqueue(now, queue, request);
        self.dispatch_as_much_as_possible(now);
        match self.requests.get(id).and_then(|request| request.started) {
            Some(_) => Started::Executing(id),
            None => Started::Waiting(id, receiver),
        }
    }

    fn start_sans_queue(
        &mut self,
        now: Time,
        class: &Classification,
        schema: usize,
        width: Width,
    ) -> Started {
        if !self.can_accommodate(width.max_seats()) {
            return self.reject_at_once(schema, Rejected::ConcurrencyLimit);
        }
        let request = self.request(now, class, schema, width, None);
        let id = self.requests.insert(request);
        self.begin(now, id);
        self.note_demand(now);
        Started::Executing(id)
    }

    fn request(
        &mut self,
        now: Time,
        class: &Classification,
        schema: usize,
        width: Width,
        queue: Option<usize>,
    ) -> Request {
        let final_work =
            SeatSeconds::from_whole_seats(width.final_seats(), width.additional_latency);
        let initial_work = SeatSeconds::from_whole_seats(width.initial_seats(), ESTIMATED_SERVICE);
        self.next_order = self.next_order.saturating_add(1);
        Request {
            class: class.clone(),
            schema,
            width,
            total_work: initial_work.plus(final_work),
            final_work,
            queue,
            arrival: now,
            arrival_r: self.r,
            started: None,
            go: None,
            order: self.next_order,
        }
    }

    fn reject_at_once(&mut self, schema: usize, reason: Rejected) -> Started {
        self.statistics.rejected = self.statistics.rejected.saturating_add(1);
        let schemas = &mut self.statistics.schemas;
        if let Some(schema) = schemas.get_mut(schema) {
            schema.reject(reason);
            // An exempt level never gets here, since it refuses nothing.
            schema.waited_for_nothing.observe(0.0);
        }
        schemas.forget_if_gone(schema);
        Started::Rejected(reason)
    }
}
