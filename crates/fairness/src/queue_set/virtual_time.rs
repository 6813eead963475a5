//! The progress meter R: the seat-seconds that each active queue has had.

use super::QueueSet;
use super::end::Lingering;
use crate::clock::Time;
use crate::seat_seconds::SeatSeconds;

/// The amount by which the meter and all its readings are wound back, and the value
/// at which this happens. It prevents an overflow.
const WIND_BACK: SeatSeconds = SeatSeconds(u64::MAX / 2);
const WIND_BACK_FROM: u64 = u64::MAX / 2 + u64::MAX / 4;

impl QueueSet {
    /// Advances the meter to now, and ends the additional latencies that are over.
    /// It must run before every change, since it takes the queues' present state
    /// for the state since the last reading.
    pub(crate) fn advance(&mut self, now: Time) {
        self.read(now);
        let mut released = false;
        while self.next_due().is_some_and(|due| due <= now) {
            if let Some((_, lingering)) = self.lingering.pop_first() {
                self.release(now, lingering);
                released = true;
            }
        }
        if released {
            self.dispatch_as_much_as_possible(now);
        }
    }

    fn read(&mut self, now: Time) {
        let elapsed = now.since(self.read_at);
        self.read_at = self.read_at.max(now);
        if self.active_queues == 0 {
            return;
        }
        self.r = self.r.plus(SeatSeconds::from_seats(self.rate(), elapsed));
        if self.r.0 >= WIND_BACK_FROM {
            self.begin_epoch();
        }
    }

    /// Returns the seat-seconds that each active queue has in a second.
    fn rate(&self) -> f64 {
        let in_queues = self.seats_in_use.saturating_sub(self.queueless_seats);
        let wanted = in_queues.saturating_add(self.waiting_seats);
        wanted.min(self.dispatching.limit) as f64 / self.active_queues.max(1) as f64
    }

    fn begin_epoch(&mut self) {
        self.r = self.r.minus(WIND_BACK);
        let mut success = true;
        for queue in &mut self.queues {
            success &= !queue.is_active() || queue.next_dispatch >= WIND_BACK;
            queue.next_dispatch = queue.next_dispatch.minus(WIND_BACK);
        }
        for request in self.requests.iter_mut().filter(|r| r.started.is_none()) {
            success &= request.arrival_r >= WIND_BACK;
            request.arrival_r = request.arrival_r.minus(WIND_BACK);
        }
        self.statistics.note_epoch(success);
    }

    /// Gives back the seats of a request after its additional latency.
    pub(super) fn release(&mut self, now: Time, lingering: Lingering) {
        let Lingering {
            seats,
            queue,
            schema,
        } = lingering;
        self.seats_in_use = self.seats_in_use.saturating_sub(seats);
        match queue {
            Some(queue) => self.change_queue(queue, |queue| {
                queue.seats_in_use = queue.seats_in_use.saturating_sub(seats);
            }),
            None => self.queueless_seats = self.queueless_seats.saturating_sub(seats),
        }
        let in_use = self.seats_in_use;
        self.statistics.seats.set(now, in_use);
        let schemas = &mut self.statistics.schemas;
        if let Some(schema) = schemas.get_mut(schema) {
            schema.executing_seats = schema.executing_seats.saturating_sub(seats);
        }
        schemas.forget_if_gone(schema);
        self.note_demand(now);
        self.drop_idle_queues();
    }
}
