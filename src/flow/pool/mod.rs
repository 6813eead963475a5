//! Seats for requests, and fair queues for the requests that find none.
//!
//! A pool limits the requests that execute at a time. Later requests wait, each
//! flow (here: a user) in its own queue. Each seat that becomes free goes to
//! the next flow in turn. So between two requests of one flow, each other flow
//! that waits has at most one: a flow of a thousand requests delays a flow of a
//! single request by one seat. Taking, waiting and giving back are O(1),
//! however many others wait. Leaving the queue is O(length of the flow's
//! queue).
//!
//! The queues of a pool have a bound together. When they reach it, the longest
//! queue loses its last request to a request of a flow with a shorter one. So a
//! flow that fills the queues takes no place from the others.
//!
//! A place may count for several seats: answers count by their bytes
//! (`response_bytes.rs`).

mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use self::state::State;
use super::Rejected;
use crate::metrics::PoolMetrics;

/// The most requests that wait in one pool, of all flows together. Each of them
/// holds some KB. Beyond this number the last request of the longest queue is
/// refused.
const MOST_WAITING: usize = 16_384;

/// The time that a request may wait, and the length of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePolicy {
    /// The most requests of one flow that wait at a time.
    pub queue_length: usize,
    pub wait: Duration,
}

#[derive(Debug)]
pub struct Pool {
    state: Mutex<State>,
    metrics: PoolMetrics,
}

/// A place among the requests that execute. Dropping it gives it back.
#[derive(Debug)]
pub struct Seat {
    pool: Arc<Pool>,
    seats: usize,
}

impl Seat {
    /// Makes the place count for so many seats from now on, even if they are
    /// not free.
    pub fn resize(&mut self, seats: usize) {
        let mut state = self.pool.state.lock();
        state.executing = state.executing.saturating_sub(self.seats);
        state.take(seats);
        state.dispatch();
        self.seats = seats;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.pool.give_back(self.seats);
    }
}

/// A place in a queue. Dropping it leaves the queue.
struct Waiting {
    pool: Arc<Pool>,
    flow: Arc<str>,
    id: u64,
    seats: usize,
    go: oneshot::Receiver<()>,
    /// The seats now belong to a [`Seat`].
    seated: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.pool.metrics.waiting.dec();
        if self.seated {
            return;
        }
        let left = self.pool.state.lock().leave(&self.flow, self.id);
        // The request may have been given seats without being told.
        if !left && self.go.try_recv().is_ok() {
            self.pool.give_back(self.seats);
        }
    }
}

impl Pool {
    pub fn new(limit: usize, metrics: PoolMetrics) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new(limit, MOST_WAITING)),
            metrics,
        })
    }

    /// Sets the limit, 0 for none. Requests that execute keep their seats.
    pub fn set_limit(&self, limit: usize) {
        let mut state = self.state.lock();
        state.limit = limit;
        state.dispatch();
    }

    /// Takes so many seats if they are free and nobody waits.
    pub fn try_seats(self: &Arc<Self>, seats: usize) -> Option<Seat> {
        let mut state = self.state.lock();
        let free = state.waiting == 0 && state.has_room(seats);
        free.then(|| {
            state.take(seats);
            Seat {
                pool: self.clone(),
                seats,
            }
        })
    }

    /// Takes a seat for a request of this flow, and waits for it. Cancel-safe:
    /// a request that stops waiting leaves the queue.
    pub async fn seat(self: &Arc<Self>, flow: &str, policy: QueuePolicy) -> Result<Seat, Rejected> {
        self.seats(flow, 1, policy).await
    }

    /// Does the same as [`Pool::seat`] for so many seats at once.
    pub async fn seats(
        self: &Arc<Self>,
        flow: &str,
        seats: usize,
        policy: QueuePolicy,
    ) -> Result<Seat, Rejected> {
        let queued = {
            let mut state = self.state.lock();
            if state.waiting == 0 && state.has_room(seats) {
                state.take(seats);
                return Ok(Seat {
                    pool: self.clone(),
                    seats,
                });
            }
            if policy.queue_length == 0 {
                Err(Rejected::ConcurrencyLimit)
            } else if state.waiting_of(flow) >= policy.queue_length
                || state.waiting >= state.most_waiting && !state.displace(flow)
            {
                Err(Rejected::QueueFull)
            } else {
                Ok(state.wait(flow, seats))
            }
        };
        let (flow, id, go) = match queued {
            Ok(queued) => queued,
            Err(rejected) => return Err(self.reject(rejected)),
        };
        self.metrics.waiting.inc();
        let mut waiting = Waiting {
            pool: self.clone(),
            flow,
            id,
            seats,
            go,
            seated: false,
        };
        let began = Instant::now();
        let waited = timeout(policy.wait, &mut waiting.go).await;
        let seated = matches!(waited, Ok(Ok(())));
        self.metrics.waited(began.elapsed(), seated);
        match waited {
            Ok(Ok(())) => {
                waiting.seated = true;
                Ok(Seat {
                    pool: self.clone(),
                    seats,
                })
            }
            Ok(Err(_)) => Err(self.reject(Rejected::QueueFull)),
            Err(_) => Err(self.reject(Rejected::TimeOut)),
        }
    }

    /// Returns the number of seats taken, and the most since the last call.
    pub fn executing(&self) -> (usize, usize) {
        let mut state = self.state.lock();
        let executing = state.executing;
        (executing, std::mem::replace(&mut state.high, executing))
    }

    pub fn is_idle(&self) -> bool {
        let state = self.state.lock();
        state.executing == 0 && state.waiting == 0
    }

    fn reject(&self, rejected: Rejected) -> Rejected {
        self.metrics.rejected(rejected.as_str());
        rejected
    }

    fn give_back(&self, seats: usize) {
        let mut state = self.state.lock();
        state.executing = state.executing.saturating_sub(seats);
        state.dispatch();
    }
}
