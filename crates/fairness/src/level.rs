//! A priority level: a set of queues behind a lock, and the callers who wait for
//! it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::classification::Classification;
use crate::clock::{Clock, Time};
use crate::objects::EXEMPT;
use crate::queue_set::request::RequestId;
use crate::queue_set::{QueueSet, Started};
use crate::retry_after::RetryAfter;
use crate::width::Width;

/// All levels share these: the clock, and the signals to [`crate::Fairness::run`].
pub(crate) struct Surroundings {
    pub clock: Arc<dyn Clock>,
    /// Sent when an additional latency ends earlier than the task expects, or when
    /// a level can be removed.
    pub wake: Notify,
    /// Set when an unwanted level has become idle.
    pub reap: AtomicBool,
}

pub(crate) struct Level {
    name: String,
    surroundings: Arc<Surroundings>,
    /// 0 for none.
    max_seats: AtomicU64,
    state: Mutex<State>,
}

struct State {
    set: QueueSet,
    retry_after: RetryAfter,
    lifecycle: Lifecycle,
}

/// The lifecycle of a level:
///
/// ```text
/// wanted ⇄ quiescing (no object names it, requests are left) ─▶ retired
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    Wanted,
    Quiescing,
    /// It has no requests, and takes no more.
    Retired,
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Level").field("name", &self.name).finish()
    }
}

impl Level {
    pub(crate) fn new(name: &str, surroundings: &Arc<Surroundings>) -> Arc<Self> {
        let now = surroundings.clock.now();
        Arc::new(Self {
            name: name.to_owned(),
            surroundings: surroundings.clone(),
            max_seats: AtomicU64::new(0),
            state: Mutex::new(State {
                set: QueueSet::new(now),
                retry_after: RetryAfter::default(),
                lifecycle: Lifecycle::Wanted,
            }),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Only the level with the name of the exempt one is exempt.
    pub(crate) fn is_exempt(&self) -> bool {
        self.name == EXEMPT
    }

    pub(crate) fn max_seats(&self) -> Option<u64> {
        Some(self.max_seats.load(Ordering::Relaxed)).filter(|seats| *seats > 0)
    }

    pub(crate) fn set_max_seats(&self, seats: u64) {
        self.max_seats.store(seats, Ordering::Relaxed);
    }

    /// Changes the set of queues, and then notifies the waiting requests that may
    /// begin.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut QueueSet, Time) -> T) -> T {
        self.change_state(|state, now| change(&mut state.set, now))
    }

    fn change_state<T>(&self, change: impl FnOnce(&mut State, Time) -> T) -> T {
        let mut state = self.state.lock();
        // The time is read under the lock, so that it never goes back in a set.
        let now = self.surroundings.clock.now();
        let due = state.set.next_due();
        let result = change(&mut state, now);
        let granted = state.set.take_granted();
        let due_earlier = match (state.set.next_due(), due) {
            (Some(new), Some(old)) => new < old,
            (new, _) => new.is_some(),
        };
        let is_done = state.lifecycle == Lifecycle::Quiescing && state.set.is_idle();
        drop(state);
        for go in granted {
            // A caller who has left meanwhile ends its request itself.
            let _ = go.send(());
        }
        if is_done {
            self.surroundings.reap.store(true, Ordering::Relaxed);
        }
        if is_done || due_earlier {
            self.surroundings.wake.notify_one();
        }
        result
    }

    /// Returns `None` if the level is retired.
    pub(crate) fn start(&self, class: &Classification, width: Width) -> Option<Started> {
        self.change_state(|state, now| {
            if state.lifecycle == Lifecycle::Retired {
                return None;
            }
            let started = state.set.start(now, class, width);
            if matches!(started, Started::Rejected(_)) {
                state.retry_after.refused(self.unix(now));
            }
            Some(started)
        })
    }

    pub(crate) fn finish(&self, id: RequestId) {
        self.change_state(|state, now| {
            state.retry_after.ended();
            state.set.finish(now, id);
        });
    }

    /// Takes a request whose wait timed out out of its queue. Returns false if it
    /// has begun to execute.
    pub(crate) fn leave(&self, id: RequestId) -> bool {
        self.change_state(|state, now| {
            let left = state.set.leave(now, id);
            if left {
                state.retry_after.refused(self.unix(now));
            }
            left
        })
    }

    /// Ends a request whose caller has left.
    pub(crate) fn abandon(&self, id: RequestId) {
        self.change_state(|state, now| {
            if state.set.abandon(now, id) {
                state.retry_after.refused(self.unix(now));
            }
        });
    }

    /// Returns the seconds that one more refused client is to wait.
    pub(crate) fn retry_after(&self) -> u64 {
        let mut state = self.state.lock();
        let now = self.surroundings.clock.now();
        let waiting = state.set.waiting_requests();
        state.retry_after.tell(self.unix(now), waiting)
    }

    pub(crate) fn want(&self) {
        self.state.lock().lifecycle = Lifecycle::Wanted;
    }

    /// Retires a level that no object names, or makes it finish its requests first.
    /// Returns whether it is retired.
    pub(crate) fn unwant(&self) -> bool {
        let mut state = self.state.lock();
        state.lifecycle = match state.set.is_idle() {
            true => Lifecycle::Retired,
            false => Lifecycle::Quiescing,
        };
        state.lifecycle == Lifecycle::Retired
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut QueueSet, Lifecycle, Time) -> T) -> T {
        let mut state = self.state.lock();
        let now = self.surroundings.clock.now();
        let lifecycle = state.lifecycle;
        look(&mut state.set, lifecycle, now)
    }

    fn unix(&self, now: Time) -> Duration {
        self.surroundings.clock.unix(now)
    }
}
