//! Seats for requests, and fair queues for those that find none.
//!
//! A pool has a limit of requests that execute at a time. Who comes later
//! waits, each flow (here: a user) in a queue of its own; each seat that
//! becomes free goes to the next flow in turn. So between two requests of one
//! flow each other flow that waits has at most one: a flow of a thousand
//! requests delays one of a single request by one seat. Taking, waiting and
//! giving back are O(1), whoever else waits; leaving the queue is O(length of
//! the own flow's queue).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::Rejected;
use crate::metrics::PoolMetrics;

/// Requests that wait in one pool, of all flows: what they hold is a few KB
/// each. More are refused.
const MOST_WAITING: usize = 16_384;

/// How long one may wait, and in how long a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Requests of one flow that wait at a time.
    pub queue_length: usize,
    pub wait: Duration,
}

impl Patience {
    /// To be refused at once.
    pub const NONE: Self = Self {
        queue_length: 0,
        wait: Duration::ZERO,
    };
}

#[derive(Debug)]
pub struct Pool {
    state: Mutex<State>,
    metrics: PoolMetrics,
}

/// While there is a free seat nobody waits.
#[derive(Debug, Default)]
struct State {
    /// 0: none.
    limit: usize,
    executing: usize,
    /// The most executing since it was last read.
    high: usize,
    waiting: usize,
    /// Those with somebody waiting, each once in `turns`.
    flows: HashMap<Arc<str>, VecDeque<Waiter>>,
    turns: VecDeque<Arc<str>>,
    next_id: u64,
}

#[derive(Debug)]
struct Waiter {
    id: u64,
    go: oneshot::Sender<()>,
}

impl State {
    fn has_room(&self) -> bool {
        self.limit == 0 || self.executing < self.limit
    }

    fn take(&mut self) {
        self.executing += 1;
        self.high = self.high.max(self.executing);
    }

    fn wait(&mut self, flow: &str) -> (Arc<str>, u64, oneshot::Receiver<()>) {
        let (go, gone) = oneshot::channel();
        let id = self.next_id;
        self.next_id += 1;
        self.waiting += 1;
        let waiter = Waiter { id, go };
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

    /// Gives free seats to whose turn it is.
    fn dispatch(&mut self) {
        while self.waiting > 0 && self.has_room() {
            let Some(flow) = self.turns.pop_front() else {
                return;
            };
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
                self.waiting -= 1;
                self.take();
                // Who leaves the queue takes himself out of it first: see
                // `Waiting::drop`, which gives the seat back if it is late.
                let _ = waiter.go.send(());
            }
        }
    }

    /// False if it waits no more: it has been given a seat.
    fn leave(&mut self, flow: &Arc<str>, id: u64) -> bool {
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
        self.waiting -= usize::from(left);
        left
    }
}

/// A place among those that execute, given back when dropped.
#[derive(Debug)]
pub struct Seat(Arc<Pool>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

/// A place in a queue. Whoever drops it leaves.
struct Waiting {
    pool: Arc<Pool>,
    flow: Arc<str>,
    id: u64,
    go: oneshot::Receiver<()>,
    /// The seat is somebody's now.
    seated: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.pool.metrics.waiting.dec();
        if self.seated {
            return;
        }
        let left = self.pool.state.lock().leave(&self.flow, self.id);
        if !left {
            self.pool.give_back();
        }
    }
}

impl Pool {
    pub fn new(limit: usize, metrics: PoolMetrics) -> Arc<Self> {
        let state = State {
            limit,
            ..State::default()
        };
        Arc::new(Self {
            state: Mutex::new(state),
            metrics,
        })
    }

    /// 0 for no limit. What executes stays.
    pub fn set_limit(&self, limit: usize) {
        let mut state = self.state.lock();
        state.limit = limit;
        state.dispatch();
    }

    /// A seat, if one is free.
    pub fn try_seat(self: &Arc<Self>) -> Option<Seat> {
        let mut state = self.state.lock();
        state.has_room().then(|| {
            state.take();
            Seat(self.clone())
        })
    }

    /// A seat, for one of this flow. Cancel-safe: who stops waiting has left
    /// the queue.
    pub async fn seat(self: &Arc<Self>, flow: &str, patience: Patience) -> Result<Seat, Rejected> {
        let queued = {
            let mut state = self.state.lock();
            if state.has_room() {
                state.take();
                return Ok(Seat(self.clone()));
            }
            let in_flow = state.flows.get(flow).map_or(0, VecDeque::len);
            if patience.queue_length == 0 {
                Err(Rejected::ConcurrencyLimit)
            } else if in_flow >= patience.queue_length || state.waiting >= MOST_WAITING {
                Err(Rejected::QueueFull)
            } else {
                Ok(state.wait(flow))
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
            go,
            seated: false,
        };
        let began = Instant::now();
        let waited = timeout(patience.wait, &mut waiting.go).await;
        let seated = matches!(waited, Ok(Ok(())));
        self.metrics.waited(began.elapsed(), seated);
        if !seated {
            return Err(self.reject(Rejected::TimeOut));
        }
        waiting.seated = true;
        Ok(Seat(self.clone()))
    }

    /// How many execute; and the most since the last call.
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

    fn give_back(&self) {
        let mut state = self.state.lock();
        state.executing -= 1;
        state.dispatch();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::BoxFuture;
    use prometheus::Registry;

    use super::*;
    use crate::metrics::FlowMetrics;

    const PATIENT: Patience = Patience {
        queue_length: 100,
        wait: Duration::from_secs(15),
    };

    fn pool(limit: usize) -> Arc<Pool> {
        let metrics = FlowMetrics::register(&Registry::new()).unwrap();
        Pool::new(limit, metrics.pool("test"))
    }

    type Asked = BoxFuture<'static, Result<Seat, Rejected>>;

    /// Asks, and waits in the queue if it must.
    fn ask(pool: &Arc<Pool>, flow: &'static str, patience: Patience) -> Result<Seat, Asked> {
        let pool = pool.clone();
        let mut asked = async move { pool.seat(flow, patience).await }.boxed();
        match (&mut asked).now_or_never() {
            Some(seat) => Ok(seat.unwrap()),
            None => Err(asked),
        }
    }

    fn state(pool: &Pool) -> (usize, usize, usize, usize) {
        let state = pool.state.lock();
        let turns = state.turns.len();
        (state.executing, state.waiting, state.flows.len(), turns)
    }

    #[tokio::test]
    async fn seats_go_round_among_the_flows() {
        let pool = pool(1);
        let mut seat = ask(&pool, "greedy", PATIENT).ok();
        let mut waiting: Vec<(&str, Asked)> = Vec::new();
        for flow in ["greedy"; 10].into_iter().chain(["a", "b", "a", "c"]) {
            waiting.push((flow, ask(&pool, flow, PATIENT).unwrap_err()));
        }
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(seat.take());
            let at = waiting.iter_mut().position(|(_, asked)| {
                seat = asked.now_or_never().map(Result::unwrap);
                seat.is_some()
            });
            order.push(waiting.remove(at.unwrap()).0);
        }
        // Nobody waits for more than one seat of each of the others.
        assert_eq!(order[..6], ["greedy", "a", "b", "c", "greedy", "a"]);
        assert_eq!(order[6..], ["greedy"; 8]);
        drop(seat);
        assert_eq!(state(&pool), (0, 0, 0, 0));
        assert!(pool.is_idle());
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_leaves_nothing_behind() {
        let pool = pool(1);
        let seat = ask(&pool, "a", PATIENT).ok();
        let first = ask(&pool, "a", PATIENT).unwrap_err();
        let second = ask(&pool, "b", PATIENT).unwrap_err();
        assert_eq!(state(&pool), (1, 2, 2, 2));
        assert_eq!(pool.metrics.waiting.get(), 2);
        drop(first);
        assert_eq!(state(&pool), (1, 1, 1, 1));
        // Given a seat that it never learns of.
        drop(seat);
        assert_eq!(state(&pool), (1, 0, 0, 0));
        drop(second);
        assert_eq!(state(&pool), (0, 0, 0, 0));
        assert_eq!(pool.metrics.waiting.get(), 0);
        // Given up.
        let seat = ask(&pool, "a", PATIENT).ok();
        let late = pool.seat("b", PATIENT).await;
        assert_eq!(late.unwrap_err(), Rejected::TimeOut);
        drop(seat);
        assert_eq!(state(&pool), (0, 0, 0, 0));
    }

    #[tokio::test]
    async fn queues_are_bounded_by_flow() {
        let pool = pool(1);
        let two = Patience {
            queue_length: 2,
            ..PATIENT
        };
        let _seat = ask(&pool, "a", two).ok();
        let _waiting = [ask(&pool, "a", two), ask(&pool, "a", two)];
        let full = pool.seat("a", two).now_or_never().unwrap();
        assert_eq!(full.unwrap_err(), Rejected::QueueFull);
        let _other_flow = ask(&pool, "b", two).unwrap_err();
        let at_once = pool.seat("c", Patience::NONE).now_or_never().unwrap();
        assert_eq!(at_once.unwrap_err(), Rejected::ConcurrencyLimit);
    }

    #[tokio::test]
    async fn a_new_limit_holds_for_those_who_wait() {
        let pool = pool(1);
        let _seats = [ask(&pool, "a", PATIENT).ok()];
        let mut waiting = [
            ask(&pool, "a", PATIENT).unwrap_err(),
            ask(&pool, "a", PATIENT).unwrap_err(),
        ];
        pool.set_limit(2);
        assert_eq!(state(&pool), (2, 1, 1, 1));
        let _first = (&mut waiting[0]).now_or_never().unwrap();
        pool.set_limit(0);
        let _second = (&mut waiting[1]).now_or_never().unwrap();
        assert_eq!(pool.executing().1, 3);
    }
}
