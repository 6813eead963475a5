//! A queue for questions to an API server. It limits how many are in flight,
//! and shares the turns fairly among callers.
//!
//! Waiting callers get the next free turn one after the other, however many
//! questions each has. When too many questions wait, the newest question of the
//! caller with the most waiting is refused: a flood ends as a 429 for its own
//! caller.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The limits on the number of questions.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Questions in flight, of all callers.
    pub at_a_time: usize,
    /// Questions in flight, of one caller. The turns of other callers stay free
    /// while the API server takes long over this caller's questions.
    pub at_a_time_of_one: usize,
    /// Questions that wait, of all callers.
    pub waiting: usize,
    /// Questions that wait, of one caller.
    pub waiting_of_one: usize,
}

/// There is no room to wait for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

pub struct FairQueue<C> {
    state: Mutex<State<C>>,
    limits: QueueLimits,
}

struct State<C> {
    on_their_way: usize,
    waiting: usize,
    /// The callers with a question in flight or waiting.
    callers: HashMap<C, Caller>,
    /// Each caller with a waiting question, once, in the order of their turns.
    order: VecDeque<C>,
    next_id: u64,
}

#[derive(Default)]
struct Caller {
    on_their_way: usize,
    waiting: VecDeque<Waiter>,
}

struct Waiter {
    id: u64,
    /// Dropping it unsent refuses the question.
    go: oneshot::Sender<()>,
}

/// A question's turn. Dropping it gives the turn back.
pub struct Permit<C: Clone + Eq + Hash> {
    queue: Arc<FairQueue<C>>,
    caller: C,
}

impl<C: Clone + Eq + Hash> Drop for Permit<C> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        state.end(&self.caller);
        state.dispatch(self.queue.limits);
    }
}

/// A place in the queue. Dropping it leaves the queue.
struct Place<C: Clone + Eq + Hash> {
    queue: Arc<FairQueue<C>>,
    caller: C,
    id: u64,
    go: oneshot::Receiver<()>,
    is_over: bool,
}

impl<C: Clone + Eq + Hash> Drop for Place<C> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut state = self.queue.state.lock();
        if !state.leave(&self.caller, self.id) && self.go.try_recv().is_ok() {
            // The turn came while the caller was leaving.
            state.end(&self.caller);
            state.dispatch(self.queue.limits);
        }
    }
}

impl<C: Clone + Eq + Hash> FairQueue<C> {
    pub fn new(limits: QueueLimits) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                on_their_way: 0,
                waiting: 0,
                callers: HashMap::new(),
                order: VecDeque::new(),
                next_id: 0,
            }),
            limits,
        })
    }

    /// Waits for a turn for one of this caller's questions. Cancel-safe:
    /// dropping the future leaves the queue.
    pub async fn take(self: &Arc<Self>, caller: &C) -> Result<Permit<C>, QueueFull> {
        let permit = || Permit {
            queue: self.clone(),
            caller: caller.clone(),
        };
        let mut place = {
            let mut state = self.state.lock();
            if state.may_begin(caller, self.limits) {
                state.begin(caller);
                return Ok(permit());
            }
            let (id, go) = state.wait(caller, self.limits)?;
            Place {
                queue: self.clone(),
                caller: caller.clone(),
                id,
                go,
                is_over: false,
            }
        };
        let result = (&mut place.go).await;
        place.is_over = true;
        result.map(|()| permit()).map_err(|_| QueueFull)
    }

    /// Returns the number of questions that wait.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting
    }
}

impl<C: Clone + Eq + Hash> State<C> {
    /// Tells whether a question may begin at once. A question that comes while
    /// others of the same caller wait goes behind them.
    fn may_begin(&self, caller: &C, limits: QueueLimits) -> bool {
        if self.on_their_way >= limits.at_a_time {
            return false;
        }
        self.callers
            .get(caller)
            .is_none_or(|c| c.waiting.is_empty() && c.on_their_way < limits.at_a_time_of_one)
    }

    fn begin(&mut self, caller: &C) {
        self.on_their_way = self.on_their_way.saturating_add(1);
        let found = self.callers.entry(caller.clone()).or_default();
        found.on_their_way = found.on_their_way.saturating_add(1);
    }

    fn end(&mut self, caller: &C) {
        self.on_their_way = self.on_their_way.saturating_sub(1);
        if let Some(found) = self.callers.get_mut(caller) {
            found.on_their_way = found.on_their_way.saturating_sub(1);
        }
        self.forget_idle(caller);
    }

    fn forget_idle(&mut self, caller: &C) {
        let idle = |c: &Caller| c.on_their_way == 0 && c.waiting.is_empty();
        if self.callers.get(caller).is_some_and(idle) {
            self.callers.remove(caller);
        }
    }

    fn wait(
        &mut self,
        caller: &C,
        limits: QueueLimits,
    ) -> Result<(u64, oneshot::Receiver<()>), QueueFull> {
        let own = self.callers.get(caller).map_or(0, |c| c.waiting.len());
        if own >= limits.waiting_of_one {
            return Err(QueueFull);
        }
        if self.waiting >= limits.waiting {
            self.refuse_of_the_most(own)?;
        }
        let (go, gone) = oneshot::channel();
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        self.waiting = self.waiting.saturating_add(1);
        if own == 0 {
            self.order.push_back(caller.clone());
        }
        let waiter = Waiter { id, go };
        let caller = self.callers.entry(caller.clone()).or_default();
        caller.waiting.push_back(waiter);
        Ok((id, gone))
    }

    /// Refuses the newest question of the caller with the most waiting, if that
    /// caller has more than this caller will have (`own` and the new one).
    /// Otherwise the new question is refused.
    fn refuse_of_the_most(&mut self, own: usize) -> Result<(), QueueFull> {
        let most = self.callers.iter().max_by_key(|(_, c)| c.waiting.len());
        let (caller, length) = most
            .map(|(k, c)| (k.clone(), c.waiting.len()))
            .ok_or(QueueFull)?;
        if length <= own.saturating_add(1) {
            return Err(QueueFull);
        }
        if let Some(found) = self.callers.get_mut(&caller)
            && found.waiting.pop_back().is_some()
        {
            self.waiting = self.waiting.saturating_sub(1);
        }
        Ok(())
    }

    /// Gives free turns to the callers who are next.
    fn dispatch(&mut self, limits: QueueLimits) {
        // Each caller is looked at once. Callers at their own limit stay in the
        // queue.
        let mut left = self.order.len();
        while left > 0 && self.on_their_way < limits.at_a_time {
            let Some(caller) = self.order.pop_front() else {
                return;
            };
            left = left.saturating_sub(1);
            let Some(found) = self.callers.get_mut(&caller) else {
                continue;
            };
            if found.on_their_way >= limits.at_a_time_of_one {
                self.order.push_back(caller);
                continue;
            }
            let Some(waiter) = found.waiting.pop_front() else {
                continue;
            };
            self.waiting = self.waiting.saturating_sub(1);
            if !found.waiting.is_empty() {
                self.order.push_back(caller.clone());
                left = left.saturating_add(1);
            }
            // A caller leaves its place under the same lock: see `Place::drop`,
            // which gives back a turn that came too late.
            if waiter.go.send(()).is_ok() {
                self.begin(&caller);
            } else {
                self.forget_idle(&caller);
            }
        }
    }

    /// Removes a waiting question. Returns false if it is no longer in the
    /// queue.
    fn leave(&mut self, caller: &C, id: u64) -> bool {
        let Some(found) = self.callers.get_mut(caller) else {
            return false;
        };
        let before = found.waiting.len();
        found.waiting.retain(|waiter| waiter.id != id);
        let left = found.waiting.len() < before;
        self.waiting = self.waiting.saturating_sub(usize::from(left));
        if left && found.waiting.is_empty() {
            self.order.retain(|other| other != caller);
        }
        self.forget_idle(caller);
        left
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn queue_of(at_a_time: usize, of_one: usize, waiting: usize) -> Arc<FairQueue<&'static str>> {
        FairQueue::new(QueueLimits {
            at_a_time,
            at_a_time_of_one: of_one,
            waiting,
            waiting_of_one: waiting,
        })
    }

    /// Asks for a turn and asserts that it has to wait.
    macro_rules! waits {
        ($queue:expr, $caller:expr) => {{
            let (queue, caller) = ($queue.clone(), $caller);
            let mut asked = Box::pin(async move { queue.take(&caller).await });
            assert!((&mut asked).now_or_never().is_none(), "waits");
            asked
        }};
    }

    #[tokio::test]
    async fn a_flood_delays_another_caller_by_one_turn() {
        let queue = queue_of(1, 1, 100);
        let first = queue.take(&"flood").await.ok();
        let mut flood: Vec<_> = (0..50).map(|_| waits!(queue, "flood")).collect();
        let jane = waits!(queue, "jane");
        drop(first);
        // The flood came first, so one more of its questions goes first.
        let second = (&mut flood[0]).await.ok();
        assert!(jane.now_or_never().is_none());
        drop(second);
    }

    #[tokio::test]
    async fn turns_go_round() {
        let queue = queue_of(1, 1, 100);
        let mut held = queue.take(&"a").await.ok();
        let mut waiting = Vec::new();
        for caller in ["a", "a", "b", "b", "c"] {
            waiting.push((caller, waits!(queue, caller)));
        }
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(held.take());
            let next = waiting
                .iter_mut()
                .position(|(_, asked)| match asked.now_or_never() {
                    Some(turn) => {
                        held = turn.ok();
                        true
                    }
                    None => false,
                })
                .unwrap();
            order.push(waiting.remove(next).0);
        }
        assert_eq!(order, ["a", "b", "c", "a", "b"]);
        drop(held);
        assert!(
            queue.state.lock().callers.is_empty(),
            "nobody is remembered"
        );
    }

    #[tokio::test]
    async fn one_caller_leaves_turns_for_the_others() {
        let queue = queue_of(4, 3, 100);
        let mut held = Vec::new();
        for _ in 0..3 {
            held.push(queue.take(&"flood").await.ok());
        }
        let more = waits!(queue, "flood");
        assert!(queue.take(&"jane").now_or_never().is_some());
        held.pop();
        assert!(more.now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_has_the_most_waiting_is_refused() {
        let queue = queue_of(1, 1, 4);
        let _held = queue.take(&"a").await.ok();
        let mut flood: Vec<_> = (0..4).map(|_| waits!(queue, "flood")).collect();
        assert_eq!(queue.take(&"flood").await.err(), Some(QueueFull));
        let _jane = waits!(queue, "jane");
        assert_eq!(flood.pop().unwrap().await.err(), Some(QueueFull));
        assert_eq!(queue.waiting(), 4);
        // Both callers have two: nobody has more than the newcomer would have.
        let _jane = waits!(queue, "jane");
        assert_eq!(flood.pop().unwrap().await.err(), Some(QueueFull));
        assert_eq!(queue.take(&"jane").await.err(), Some(QueueFull));
    }

    #[tokio::test]
    async fn who_goes_away_leaves_nothing_behind() {
        let queue = queue_of(1, 1, 10);
        let held = queue.take(&"a").await.ok();
        let gone = waits!(queue, "b");
        let stays = waits!(queue, "c");
        drop(gone);
        assert_eq!(queue.waiting(), 1);
        drop(held);
        // The caller has the turn, and leaves before learning of it.
        drop(stays);
        let state = queue.state.lock();
        assert_eq!((state.on_their_way, state.waiting), (0, 0));
        assert!(state.callers.is_empty() && state.order.is_empty());
    }
}
