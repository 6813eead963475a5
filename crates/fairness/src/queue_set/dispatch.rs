//! A request's way from its queue to its execution: which queue is next, and when.

use std::ops::Bound::{Excluded, Unbounded};

use tokio::sync::oneshot;

use super::config::Queuing;
use super::request::{Request, RequestId};
use super::statistics::DispatchReadings;
use super::{ESTIMATED_SERVICE, QueueSet};
use crate::clock::Time;
use crate::seat_seconds::SeatSeconds;

impl QueueSet {
    /// Tells whether this many seats are free now. A request wider than the limit
    /// executes alone.
    pub(super) fn can_accommodate(&self, seats: usize) -> bool {
        let limit = self.dispatching.limit;
        match self.queuing {
            Queuing::Exempt => true,
            _ if seats > limit => self.executing_requests == 0,
            _ => self.seats_in_use.saturating_add(seats) <= limit,
        }
    }

    pub(super) fn enqueue(
        &mut self,
        now: Time,
        queue: usize,
        mut request: Request,
    ) -> (RequestId, oneshot::Receiver<()>) {
        let (go, receiver) = oneshot::channel();
        request.go = Some(go);
        let (width, work) = (request.width, request.total_work);
        let (order, schema) = (request.order, request.schema);
        let initial_seats = width.initial_seats();
        let seats = width.max_seats();
        let id = self.requests.insert(request);
        let r = self.r;
        let mut length = 0;
        self.change_queue(queue, |queue| {
            if !queue.is_active() {
                queue.next_dispatch = r;
            }
            queue.waiting.insert(order, id);
            queue.initial_seats = queue.initial_seats.saturating_add(initial_seats);
            queue.max_seats = queue.max_seats.saturating_add(seats);
            queue.total_work = queue.total_work.plus(work);
            length = queue.waiting.len();
        });
        self.waiting_queues.insert(queue);
        self.waiting_requests = self.waiting_requests.saturating_add(1);
        self.waiting_seats = self.waiting_seats.saturating_add(seats);
        let waiting = self.waiting_requests;
        self.statistics.waiting.set(now, waiting);
        if let Some(schema) = self.statistics.schemas.get_mut(schema) {
            schema.waiting_requests = schema.waiting_requests.saturating_add(1);
            schema.waiting_seats = schema.waiting_seats.saturating_add(seats);
            schema.queue_length.observe(length as f64);
        }
        self.note_demand(now);
        self.bound_next_dispatch(queue);
        (id, receiver)
    }

    /// Takes a request out of its queue. Returns the queue, or `None` if it did not
    /// wait.
    pub(super) fn dequeue(&mut self, now: Time, id: RequestId) -> Option<usize> {
        let request = self.requests.get(id)?;
        let (queue, width) = (request.queue?, request.width);
        let (order, work, schema) = (request.order, request.total_work, request.schema);
        let initial_seats = width.initial_seats();
        let seats = width.max_seats();
        self.queue(queue)
            .filter(|q| q.waiting.contains_key(&order))?;
        let mut is_empty = false;
        self.change_queue(queue, |queue| {
            queue.waiting.remove(&order);
            queue.initial_seats = queue.initial_seats.saturating_sub(initial_seats);
            queue.max_seats = queue.max_seats.saturating_sub(seats);
            queue.total_work = queue.total_work.minus(work);
            is_empty = queue.waiting.is_empty();
        });
        if is_empty {
            self.waiting_queues.remove(&queue);
        }
        self.waiting_requests = self.waiting_requests.saturating_sub(1);
        self.waiting_seats = self.waiting_seats.saturating_sub(seats);
        let waiting = self.waiting_requests;
        self.statistics.waiting.set(now, waiting);
        if let Some(schema) = self.statistics.schemas.get_mut(schema) {
            schema.waiting_requests = schema.waiting_requests.saturating_sub(1);
            schema.waiting_seats = schema.waiting_seats.saturating_sub(seats);
        }
        Some(queue)
    }

    /// Executes a request that would be the only one in all queues and would be
    /// dispatched at once. Does the same as `enqueue` followed by a dispatch.
    pub(super) fn execute_at_once(
        &mut self,
        now: Time,
        queue: usize,
        request: Request,
    ) -> RequestId {
        let r = self.r;
        let (work, schema) = (request.total_work, request.schema);
        let mut next = r;
        let mut in_use = 0;
        if let Some(queue) = self.queues.get_mut(queue) {
            if !queue.is_active() || queue.next_dispatch < r {
                queue.next_dispatch = r;
            }
            next = queue.next_dispatch;
            in_use = queue.seats_in_use;
            queue.next_dispatch = next.plus(work);
        }
        self.robin = queue;
        let discounted = next.minus(SeatSeconds::from_whole_seats(in_use, ESTIMATED_SERVICE));
        self.note_dispatch(next, (next, next), (discounted, discounted));
        if let Some(schema) = self.statistics.schemas.get_mut(schema) {
            schema.queue_length.observe(1.0);
        }
        let id = self.requests.insert(request);
        self.bound_final_seats(id);
        self.begin(now, id);
        self.note_demand(now);
        id
    }

    pub(super) fn dispatch_as_much_as_possible(&mut self, now: Time) {
        while self.waiting_requests > 0
            && self.seats_in_use < self.dispatching.limit
            && self.dispatch(now)
        {}
    }

    /// Dispatches the oldest request of the queue whose turn it is. Returns false
    /// if nothing waits or that request needs more seats than are free.
    fn dispatch(&mut self, now: Time) -> bool {
        let Some((queue, id)) = self.find_next() else {
            return false;
        };
        let Some(request) = self.requests.get(id) else {
            return false;
        };
        let (work, schema) = (request.total_work, request.schema);
        if !self.can_accommodate(request.width.max_seats()) {
            if let Some(schema) = self.statistics.schemas.get_mut(schema) {
                schema.no_accommodation = schema.no_accommodation.saturating_add(1);
            }
            return false;
        }
        self.dequeue(now, id);
        self.bound_final_seats(id);
        self.robin = queue;
        self.begin(now, id);
        self.note_demand(now);
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.next_dispatch = queue.next_dispatch.plus(work);
        }
        self.bound_next_dispatch(queue);
        if let Some(go) = self.requests.get_mut(id).and_then(|r| r.go.take()) {
            self.granted.push(go);
        }
        true
    }

    /// Finds the queue whose oldest request would finish first in the virtual
    /// world. Among equals, this is the first one after the queue that was served
    /// last.
    fn find_next(&mut self) -> Option<(usize, RequestId)> {
        let mut best: Option<(SeatSeconds, SeatSeconds, usize, RequestId)> = None;
        let mut next = (SeatSeconds::MAX, SeatSeconds::default());
        let mut discounted = next;
        let after = self.waiting_queues.range((Excluded(self.robin), Unbounded));
        let before = self.waiting_queues.range(..=self.robin);
        for at in after.chain(before) {
            let Some(queue) = self.queue(*at) else {
                continue;
            };
            let Some(id) = queue.oldest() else { continue };
            let Some(request) = self.requests.get(id) else {
                continue;
            };
            let reading = queue.next_dispatch;
            let in_progress = SeatSeconds::from_whole_seats(queue.seats_in_use, ESTIMATED_SERVICE);
            let less = reading.minus(in_progress);
            next = (next.0.min(reading), next.1.max(reading));
            discounted = (discounted.0.min(less), discounted.1.max(less));
            let finish = reading.plus(request.total_work);
            if best.is_none_or(|(least, ..)| finish < least) {
                best = Some((finish, reading, *at, id));
            }
        }
        let (_, reading, queue, id) = best?;
        self.note_dispatch(reading, next, discounted);
        Some((queue, id))
    }

    fn note_dispatch(
        &mut self,
        latest: SeatSeconds,
        next: (SeatSeconds, SeatSeconds),
        discounted: (SeatSeconds, SeatSeconds),
    ) {
        self.statistics.dispatch = Some(DispatchReadings {
            now: self.r,
            latest,
            next,
            next_discounted: discounted,
        });
    }

    /// Reduces the final seats to the limit. The additional latency becomes longer,
    /// so that the work stays the same.
    fn bound_final_seats(&mut self, id: RequestId) {
        let limit = self.dispatching.limit;
        let Some(request) = self.requests.get_mut(id) else {
            return;
        };
        if request.width.final_seats > limit as u64 {
            request.width.final_seats = limit as u64;
            request.width.additional_latency = request.final_work.duration_per_seat(limit);
        }
    }

    pub(super) fn begin(&mut self, now: Time, id: RequestId) {
        let Some(request) = self.requests.get_mut(id) else {
            return;
        };
        request.started = Some(now);
        let (queue, schema) = (request.queue, request.schema);
        let seats = request.width.max_seats();
        let waited = now.since(request.arrival);
        self.executing_requests = self.executing_requests.saturating_add(1);
        self.seats_in_use = self.seats_in_use.saturating_add(seats);
        match queue {
            Some(queue) => self.change_queue(queue, |queue| {
                queue.executing = queue.executing.saturating_add(1);
                queue.seats_in_use = queue.seats_in_use.saturating_add(seats);
            }),
            None => self.queueless_seats = self.queueless_seats.saturating_add(seats),
        }
        let (requests, in_use) = (self.executing_requests, self.seats_in_use);
        let is_exempt = self.queuing == Queuing::Exempt;
        let statistics = &mut self.statistics;
        statistics.executing.set(now, requests);
        statistics.seats.set(now, in_use);
        statistics.dispatched = statistics.dispatched.saturating_add(1);
        if let Some(schema) = statistics.schemas.get_mut(schema) {
            schema.dispatched = schema.dispatched.saturating_add(1);
            schema.executing_requests = schema.executing_requests.saturating_add(1);
            schema.executing_seats = schema.executing_seats.saturating_add(seats);
            if !is_exempt {
                schema.waited.observe_time(waited);
            }
        }
    }

    /// Keeps a queue's next virtual dispatch from being earlier than its oldest
    /// request's arrival. Otherwise a queue that cannot use its seats would save
    /// them up.
    pub(super) fn bound_next_dispatch(&mut self, at: usize) {
        let Some(oldest) = self.queue(at).and_then(super::Queue::oldest) else {
            return;
        };
        let Some(arrival) = self.requests.get(oldest).map(|r| r.arrival_r) else {
            return;
        };
        if let Some(queue) = self.queues.get_mut(at) {
            queue.next_dispatch = queue.next_dispatch.max(arrival);
        }
    }
}
