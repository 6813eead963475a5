//! Turns that callers take, and a queue for callers who find none free.
//!
//! Free turns go round among the waiting callers, however much each of them wants.
//! When too many wait, the newest waiter of the caller with the most is refused, so
//! a flood takes no place from other callers. Taking, waiting and leaving cost
//! O(log n).

mod line;
#[cfg(test)]
mod tests;

use std::fmt::{self, Debug, Formatter};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::line::State;

/// The limits of a queue; 0 means no limit. Something larger than a limit has its
/// turn when nothing else counts against that limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// The total weight of the turns that all callers have taken.
    pub at_a_time: usize,
    /// The weight of the turns of one caller. This keeps turns free for others
    /// while one caller holds its own for long.
    pub at_a_time_of_one: usize,
    /// The number of waiters of all callers.
    pub waiting: usize,
    /// The number of waiters of one caller.
    pub waiting_of_one: usize,
}

/// There is no room to wait for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

pub struct FairQueue<C: Eq + Hash>(Mutex<State<C>>);

/// A turn. Dropping it ends it.
pub struct Turn<C: Clone + Eq + Hash> {
    queue: Arc<FairQueue<C>>,
    caller: C,
    weight: usize,
}

/// The result of asking for a turn.
#[derive(Debug)]
pub enum Asked<C: Clone + Eq + Hash> {
    Turn(Turn<C>),
    Queued(Queued<C>),
}

/// A place in the queue. Dropping it leaves the queue.
pub struct Queued<C: Clone + Eq + Hash> {
    queue: Arc<FairQueue<C>>,
    caller: C,
    weight: usize,
    number: u64,
    go: oneshot::Receiver<()>,
    is_over: bool,
}

impl<C: Clone + Eq + Hash> FairQueue<C> {
    pub fn new(limits: QueueLimits) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State::new(limits))))
    }

    /// Waits for a turn of weight 1. Cancel-safe: dropping the future leaves the
    /// queue.
    pub async fn take(self: &Arc<Self>, caller: &C) -> Result<Turn<C>, QueueFull> {
        match self.ask(caller, 1)? {
            Asked::Turn(turn) => Ok(turn),
            Asked::Queued(queued) => queued.turn().await,
        }
    }

    /// Takes a turn if one is free for this caller.
    pub fn try_take(self: &Arc<Self>, caller: &C, weight: usize) -> Option<Turn<C>> {
        let begins = self.0.lock().begin(caller, weight);
        begins.then(|| self.turn(caller, weight))
    }

    /// Takes a turn, or else a place in the queue.
    pub fn ask(self: &Arc<Self>, caller: &C, weight: usize) -> Result<Asked<C>, QueueFull> {
        let mut state = self.0.lock();
        if state.begin(caller, weight) {
            return Ok(Asked::Turn(self.turn(caller, weight)));
        }
        let (number, go) = state.wait(caller, weight)?;
        Ok(Asked::Queued(Queued {
            queue: self.clone(),
            caller: caller.clone(),
            weight,
            number,
            go,
            is_over: false,
        }))
    }

    /// Sets how many turns there are, of all callers and of each. Turns that are taken
    /// stay.
    pub fn set_turns(&self, at_a_time: usize, at_a_time_of_one: usize) {
        self.0.lock().set_turns(at_a_time, at_a_time_of_one);
    }

    fn turn(self: &Arc<Self>, caller: &C, weight: usize) -> Turn<C> {
        Turn {
            queue: self.clone(),
            caller: caller.clone(),
            weight,
        }
    }

    /// Returns the total weight of the turns that are taken.
    pub fn taken(&self) -> usize {
        self.0.lock().turns.total()
    }

    /// Returns the number of waiters.
    pub fn waiting(&self) -> usize {
        self.0.lock().waiting.total()
    }

    /// Tells whether nobody has a turn or waits.
    pub fn is_idle(&self) -> bool {
        self.0.lock().is_idle()
    }
}

impl<C: Clone + Eq + Hash> Turn<C> {
    /// Changes the turn's weight, whatever is free.
    pub fn set_weight(&mut self, weight: usize) {
        let mut state = self.queue.0.lock();
        state.turns.take_off(Some(&self.caller), self.weight);
        state.turns.add(Some(&self.caller), weight);
        self.weight = weight;
        state.dispatch_after(&self.caller);
    }
}

impl<C: Clone + Eq + Hash> Drop for Turn<C> {
    fn drop(&mut self) {
        self.queue.0.lock().end(&self.caller, self.weight);
    }
}

impl<C: Clone + Eq + Hash> Queued<C> {
    /// Waits for the turn. Cancel-safe.
    pub async fn turn(mut self) -> Result<Turn<C>, QueueFull> {
        let came = (&mut self.go).await;
        self.is_over = true;
        match came {
            Ok(()) => Ok(self.queue.turn(&self.caller, self.weight)),
            Err(_) => Err(QueueFull),
        }
    }
}

impl<C: Clone + Eq + Hash> Drop for Queued<C> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.queue.0.lock();
        if !state.leave(&self.caller, self.number) && self.go.try_recv().is_ok() {
            // The turn came while the caller was leaving.
            state.end(&self.caller, self.weight);
        }
    }
}

impl<C: Eq + Hash> Debug for FairQueue<C> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("FairQueue").finish_non_exhaustive()
    }
}

impl<C: Clone + Eq + Hash> Debug for Turn<C> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let weight = &self.weight;
        f.debug_struct("Turn")
            .field("weight", weight)
            .finish_non_exhaustive()
    }
}

impl<C: Clone + Eq + Hash> Debug for Queued<C> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queued")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
