//! The end of a request: it finishes, or leaves its queue.

use super::request::RequestId;
use super::{ESTIMATED_SERVICE, QueueSet};
use crate::clock::Time;
use crate::rejected::Rejected;
use crate::seat_seconds::SeatSeconds;

/// The seats of a request that has finished, until its additional latency is
/// over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lingering {
    pub seats: usize,
    pub queue: Option<usize>,
    pub schema: usize,
}

impl QueueSet {
    /// Ends a request that executes, and lets others begin.
    pub(crate) fn finish(&mut self, now: Time, id: RequestId) {
        self.advance(now);
        self.end(now, id);
        self.dispatch_as_much_as_possible(now);
    }

    /// Takes a waiting request out of its queue. Returns false if it has begun to
    /// execute.
    pub(crate) fn leave(&mut self, now: Time, id: RequestId) -> bool {
        self.advance(now);
        let Some(queue) = self.dequeue(now, id) else {
            return false;
        };
        self.note_demand(now);
        self.bound_next_dispatch(queue);
        let statistics = &mut self.statistics;
        statistics.rejected = statistics.rejected.saturating_add(1);
        statistics.cancelled = statistics.cancelled.saturating_add(1);
        if let Some(request) = self.requests.remove(id) {
            let schemas = &mut self.statistics.schemas;
            if let Some(schema) = schemas.get_mut(request.schema) {
                schema.reject(Rejected::TimeOut);
                // Like kube-apiserver, counts this wait with those of requests that
                // execute.
                schema.waited.observe_time(now.since(request.arrival));
            }
            schemas.forget_if_gone(request.schema);
        }
        self.drop_idle_queues();
        true
    }

    /// Ends a request whose caller has left, whether it waits or executes.
    pub(crate) fn abandon(&mut self, now: Time, id: RequestId) -> bool {
        let left = self.leave(now, id);
        if !left {
            self.finish(now, id);
        }
        left
    }

    fn end(&mut self, now: Time, id: RequestId) {
        let Some(request) = self.requests.remove(id) else {
            return;
        };
        let executed = now.since(request.started.unwrap_or(now));
        self.executing_requests = self.executing_requests.saturating_sub(1);
        let executing = self.executing_requests;
        self.statistics.executing.set(now, executing);
        if let Some(schema) = self.statistics.schemas.get_mut(request.schema) {
            schema.executing_requests = schema.executing_requests.saturating_sub(1);
            schema.execute(request.class.is_watch(), executed);
        }
        if let Some(at) = request.queue {
            let seats = request.width.initial_seats();
            let expected =
                SeatSeconds::from_whole_seats(seats, ESTIMATED_SERVICE.saturating_sub(executed));
            let more =
                SeatSeconds::from_whole_seats(seats, executed.saturating_sub(ESTIMATED_SERVICE));
            self.change_queue(at, |queue| {
                queue.executing = queue.executing.saturating_sub(1);
                queue.next_dispatch = queue.next_dispatch.minus(expected).plus(more);
            });
            self.bound_next_dispatch(at);
        }
        let lingering = Lingering {
            seats: request.width.max_seats(),
            queue: request.queue,
            schema: request.schema,
        };
        let latency = request.width.additional_latency;
        if latency.is_zero() {
            self.release(now, lingering);
        } else {
            self.lingering
                .insert((now.after(latency), request.order), lingering);
        }
    }
}
