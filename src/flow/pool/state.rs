//! The state of a pool: which seats are taken, and who waits for one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

/// The seats and queues of a pool. Nobody waits while the first in turn would
/// find its seats free.
#[derive(Debug, Default)]
pub(super) struct State {
    /// 0: no limit.
    pub(super) limit: usize,
    /// The most requests that wait.
    pub(super) most_waiting: usize,
    pub(super) executing: usize,
    /// The most that `executing` was since it was last read.
    pub(super) high: usize,
    pub(super) waiting: usize,
    /// The flows of which somebody waits. Each is once in `turns`.
    pub(super) flows: HashMap<Arc<str>, VecDeque<Waiter>>,
    pub(super) turns: VecDeque<Arc<str>>,
    next_id: u64,
}

#[derive(Debug)]
pub(super) struct Waiter {
    id: u64,
    seats: usize,
    /// Dropped when the waiter loses its place.
    go: oneshot::Sender<()>,
}

impl State {
    pub(super) fn new(limit: usize, most_waiting: usize) -> Self {
        Self {
            limit,
            most_waiting,
            ..Self::default()
        }
    }

    /// Tells whether so many seats are free. A request larger than the pool
    /// executes alone.
    pub(super) fn has_room(&self, seats: usize) -> bool {
        self.limit == 0 || self.executing == 0 || self.executing.saturating_add(seats) <= self.limit
    }

    pub(super) fn take(&mut self, seats: usize) {
        self.executing = self.executing.saturating_add(seats);
        self.high = self.high.max(self.executing);
    }

    pub(super) fn waiting_of(&self, flow: &str) -> usize {
        self.flows.get(flow).map_or(0, VecDeque::len)
    }

    /// Takes the last place of the longest queue away, unless the queue of
    /// `flow` is as long. Tells whether it did.
    pub(super) fn displace(&mut self, flow: &str) -> bool {
        let own = self.waiting_of(flow);
        let longest = self.flows.values_mut().max_by_key(|queue| queue.len());
        match longest {
            // More than one request waits there, so the flow keeps its turn.
            Some(queue) if queue.len() > own.saturating_add(1) => {
                queue.pop_back();
                self.waiting = self.waiting.saturating_sub(1);
                true
            }
            Some(_) | None => false,
        }
    }

    pub(super) fn wait(
        &mut self,
        flow: &str,
        seats: usize,
    ) -> (Arc<str>, u64, oneshot::Receiver<()>) {
        let (go, gone) = oneshot::channel();
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        self.waiting = self.waiting.saturating_add(1);
        let waiter = Waiter { id, seats, go };
        let flow: Arc<str> = match self.flows.get_key_value(flow) {
            Some((flow, _)) => flow.clone(),
            None => {
                let flow: Arc<str> = flow.into();
                self.turns.push_back(flow.clone());
                flow
            }
        };
        self.flows
            .entry(flow.clone())
            .or_default()
            .push_back(waiter);
        (flow, id, gone)
    }

    /// Gives free seats to the requests whose turn it is.
    pub(super) fn dispatch(&mut self) {
        while let Some(flow) = self.turns.front().cloned() {
            let first = self.flows.get(&flow).and_then(VecDeque::front);
            let Some(seats) = first.map(|waiter| waiter.seats) else {
                self.turns.pop_front();
                continue;
            };
            // Smaller requests do not go ahead, or the first would wait for
            // ever.
            if !self.has_room(seats) {
                return;
            }
            self.turns.pop_front();
            let Some(queue) = self.flows.get_mut(&flow) else {
                continue;
            };
            let first = queue.pop_front();
            if queue.is_empty() {
                self.flows.remove(&flow);
            } else {
                self.turns.push_back(flow);
            }
            if let Some(waiter) = first {
                self.waiting = self.waiting.saturating_sub(1);
                self.take(waiter.seats);
                // A request that leaves is taken out of the queue first. If it
                // is too late for that, `Waiting::drop` gives the seat back.
                let _ = waiter.go.send(());
            }
        }
    }

    /// Takes a request out of its queue. Returns false if it waits no more,
    /// because it was given its seats or has lost its place.
    pub(super) fn leave(&mut self, flow: &Arc<str>, id: u64) -> bool {
        let Some(queue) = self.flows.get_mut(flow) else {
            return false;
        };
        let before = queue.len();
        queue.retain(|waiter| waiter.id != id);
        let left = queue.len() < before;
        if queue.is_empty() {
            self.flows.remove(flow);
            self.turns.retain(|turn| turn != flow);
        }
        self.waiting = self.waiting.saturating_sub(usize::from(left));
        left
    }
}
