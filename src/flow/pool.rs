//! Seats for requests, and fair queues for those that find none.
//!
//! A pool has a limit of requests that execute at a time. Who comes later
//! waits, each flow (here: a user) in a queue of its own; each seat that
//! becomes free goes to the next flow in turn. So between two requests of one
//! flow each other flow that waits has at most one: a flow of a thousand
//! requests delays one of a single request by one seat. Taking, waiting and
//! giving back are O(1), whoever else waits; leaving the queue is O(length of
//! the own flow's queue).
//!
//! The queues of a pool have a bound together. At it the longest queue loses
//! its last request to whoever comes with a shorter one: a flow that fills the
//! queues takes no place from the others.
//!
//! A place may count for several seats: answers count by their bytes
//! (`response_bytes.rs`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::Rejected;
use crate::metrics::PoolMetrics;

/// Requests that wait in one pool, of all flows: what they hold is some KB
/// each. Beyond it the last request of the longest queue is refused.
const MOST_WAITING: usize = 16_384;

/// How long one may wait, and in how long a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePolicy {
    /// Requests of one flow that wait at a time.
    pub queue_length: usize,
    pub wait: Duration,
}

impl QueuePolicy {
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

/// Nobody waits while the first in turn would find its seats free.
#[derive(Debug, Default)]
struct State {
    /// 0: none.
    limit: usize,
    /// Requests that wait at most.
    most_waiting: usize,
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
    seats: usize,
    /// Dropped when the waiter loses its place.
    go: oneshot::Sender<()>,
}

impl State {
    /// Whether so many seats are free. What is larger than the pool goes alone.
    fn has_room(&self, seats: usize) -> bool {
        self.limit == 0 || self.executing == 0 || self.executing.saturating_add(seats) <= self.limit
    }

    fn take(&mut self, seats: usize) {
        self.executing = self.executing.saturating_add(seats);
        self.high = self.high.max(self.executing);
    }

    fn waiting_of(&self, flow: &str) -> usize {
        self.flows.get(flow).map_or(0, VecDeque::len)
    }

    /// Takes the last place of the longest queue away, unless that of `flow` is
    /// as long.
    fn displace(&mut self, flow: &str) -> bool {
        let own = self.waiting_of(flow);
        let longest = self.flows.values_mut().max_by_key(|queue| queue.len());
        match longest {
            // More than one waits there: the flow keeps its turn.
            Some(queue) if queue.len() > own.saturating_add(1) => {
                queue.pop_back();
                self.waiting = self.waiting.saturating_sub(1);
                true
            }
            Some(_) | None => false,
        }
    }

    fn wait(&mut self, flow: &str, seats: usize) -> (Arc<str>, u64, oneshot::Receiver<()>) {
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

    /// Gives free seats to whose turn it is.
    fn dispatch(&mut self) {
        while let Some(flow) = self.turns.front().cloned() {
            let first = self.flows.get(&flow).and_then(VecDeque::front);
            let Some(seats) = first.map(|waiter| waiter.seats) else {
                self.turns.pop_front();
                continue;
            };
            // Smaller ones do not go ahead: the first would wait for ever.
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
                // Who leaves the queue takes himself out of it first: see
                // `Waiting::drop`, which gives the seat back if it is late.
                let _ = waiter.go.send(());
            }
        }
    }

    /// False if it waits no more: it has been given its seats, or has lost its
    /// place.
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
        self.waiting = self.waiting.saturating_sub(usize::from(left));
        left
    }
}

/// A place among those that execute, given back when dropped.
#[derive(Debug)]
pub struct Seat {
    pool: Arc<Pool>,
    seats: usize,
}

impl Seat {
    /// Counts for so many seats from now on, free or not.
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

/// A place in a queue. Whoever drops it leaves.
struct Waiting {
    pool: Arc<Pool>,
    flow: Arc<str>,
    id: u64,
    seats: usize,
    go: oneshot::Receiver<()>,
    /// The seats are somebody's now.
    seated: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.pool.metrics.waiting.dec();
        if self.seated {
            return;
        }
        let left = self.pool.state.lock().leave(&self.flow, self.id);
        // It may have been given seats that it never learnt of.
        if !left && self.go.try_recv().is_ok() {
            self.pool.give_back(self.seats);
        }
    }
}

impl Pool {
    pub fn new(limit: usize, metrics: PoolMetrics) -> Arc<Self> {
        let state = State {
            limit,
            most_waiting: MOST_WAITING,
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
        self.try_seats(1)
    }

    /// So many seats, if they are free and nobody waits.
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

    /// A seat, for one of this flow. Cancel-safe: who stops waiting has left
    /// the queue.
    pub async fn seat(self: &Arc<Self>, flow: &str, policy: QueuePolicy) -> Result<Seat, Rejected> {
        self.seats(flow, 1, policy).await
    }

    /// The same, of so many seats at once.
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

    fn give_back(&self, seats: usize) {
        let mut state = self.state.lock();
        state.executing = state.executing.saturating_sub(seats);
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

    const PATIENT: QueuePolicy = QueuePolicy {
        queue_length: 100,
        wait: Duration::from_secs(15),
    };

    fn pool(limit: usize) -> Arc<Pool> {
        let metrics = FlowMetrics::register(&Registry::new()).unwrap();
        Pool::new(limit, metrics.pool("test"))
    }

    type Asked = BoxFuture<'static, Result<Seat, Rejected>>;

    /// Asks, and waits in the queue if it must.
    fn ask(pool: &Arc<Pool>, flow: &'static str, policy: QueuePolicy) -> Result<Seat, Asked> {
        let pool = pool.clone();
        let mut asked = async move { pool.seat(flow, policy).await }.boxed();
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
        let two = QueuePolicy {
            queue_length: 2,
            ..PATIENT
        };
        let _seat = ask(&pool, "a", two).ok();
        let _waiting = [ask(&pool, "a", two), ask(&pool, "a", two)];
        let full = pool.seat("a", two).now_or_never().unwrap();
        assert_eq!(full.unwrap_err(), Rejected::QueueFull);
        let _other_flow = ask(&pool, "b", two).unwrap_err();
        let at_once = pool.seat("c", QueuePolicy::NONE).now_or_never().unwrap();
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

    /// One flow has filled all queues: others come in for its last ones, and
    /// their own turn comes first.
    #[tokio::test]
    async fn a_full_queue_has_room_for_whoever_has_less_in_it() {
        let pool = pool(1);
        pool.state.lock().most_waiting = 10;
        let endless = QueuePolicy {
            queue_length: usize::MAX,
            ..PATIENT
        };
        let mut seat = ask(&pool, "greedy", endless).ok();
        let greedy: Vec<Asked> = (0..10)
            .map(|_| ask(&pool, "greedy", endless).unwrap_err())
            .collect();
        let full = pool.seat("greedy", endless).now_or_never().unwrap();
        assert_eq!(full.unwrap_err(), Rejected::QueueFull);
        let mut others: Vec<Asked> = ["a", "b", "a"]
            .map(|flow| ask(&pool, flow, endless).unwrap_err())
            .into();
        assert_eq!(state(&pool), (1, 10, 3, 3));
        // Its newest have lost their places, and take nothing with them.
        let mut told: Vec<Option<Rejected>> = Vec::new();
        let mut kept = Vec::new();
        for mut asked in greedy {
            match (&mut asked).now_or_never() {
                Some(answer) => told.push(answer.err()),
                None => kept.push(asked),
            }
        }
        assert_eq!(told, [Some(Rejected::QueueFull); 3]);
        assert_eq!((kept.len(), state(&pool)), (7, (1, 10, 3, 3)));
        // The first of the greedy one, then the others, whoever came before.
        drop(seat.take());
        drop((&mut kept[0]).now_or_never().unwrap().unwrap());
        let first = (&mut others[0]).now_or_never().unwrap().unwrap();
        drop(first);
        assert!((&mut others[1]).now_or_never().is_some());
        drop((kept, others));
        assert_eq!(state(&pool), (0, 0, 0, 0));
        assert!(pool.is_idle());
    }

    #[tokio::test]
    async fn the_queues_of_many_flows_are_bounded_together() {
        let pool = pool(1);
        pool.state.lock().most_waiting = 3;
        let _seat = ask(&pool, "a", PATIENT).ok();
        let _waiting: Vec<Asked> = ["a", "b", "c"]
            .map(|flow| ask(&pool, flow, PATIENT).unwrap_err())
            .into();
        let full = pool.seat("d", PATIENT).now_or_never().unwrap();
        assert_eq!(full.unwrap_err(), Rejected::QueueFull);
    }

    #[tokio::test]
    async fn places_of_several_seats() {
        let pool = pool(10);
        let seats = |flow: &'static str, seats| {
            let pool = pool.clone();
            async move { pool.seats(flow, seats, PATIENT).await }.boxed()
        };
        let mut six = seats("a", 6).now_or_never().unwrap().unwrap();
        let mut five = seats("a", 5);
        assert!((&mut five).now_or_never().is_none());
        // There is room for it, but it is not its turn.
        let mut two = seats("b", 2);
        assert!((&mut two).now_or_never().is_none());
        assert!(pool.try_seats(1).is_none());
        six.resize(5);
        let five = (&mut five).now_or_never().unwrap().unwrap();
        assert!((&mut two).now_or_never().is_none());
        six.resize(20);
        assert_eq!(pool.executing().0, 25);
        drop((six, five));
        let _two = (&mut two).now_or_never().unwrap().unwrap();
        // What is larger than all goes alone.
        let mut large = seats("c", 50);
        assert!((&mut large).now_or_never().is_none());
        drop(_two);
        assert!((&mut large).now_or_never().unwrap().is_ok());
        assert!(pool.is_idle());
    }
}
