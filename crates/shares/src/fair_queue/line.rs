//! The state of a queue: the turns that are taken, the waiters, and their order.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use tokio::sync::oneshot;

use super::{QueueFull, QueueLimits};
use crate::ledger::{Exceeded, Ledger, Limits};

/// Invariant: while somebody waits, there is no free turn for the first in the
/// order.
pub(super) struct State<C: Eq + Hash> {
    limits: QueueLimits,
    /// The weights of the turns that are taken.
    pub(super) turns: Ledger<C>,
    /// The number of waiters.
    pub(super) waiting: Ledger<C>,
    lines: HashMap<C, Line>,
    /// The waiting callers that are below their own limit, in the order of their
    /// turns.
    order: BTreeMap<u64, C>,
    next: u64,
}

/// The waiters of one caller, at least one.
#[derive(Default)]
struct Line {
    /// The caller's place in the order, or `None` if the caller is at its own
    /// limit.
    ticket: Option<u64>,
    waiters: BTreeMap<u64, Waiter>,
}

struct Waiter {
    weight: usize,
    /// Dropping it unsent refuses the turn.
    go: oneshot::Sender<()>,
}

impl<C: Clone + Eq + Hash> State<C> {
    pub(super) fn new(limits: QueueLimits) -> Self {
        Self {
            limits,
            turns: Ledger::new(Limits::fixed(0, 0)),
            waiting: Ledger::new(Limits::fixed(limits.waiting, limits.waiting_of_one)),
            lines: HashMap::new(),
            order: BTreeMap::new(),
            next: 0,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        let nobody = |ledger: &Ledger<C>| ledger.total() == 0 && ledger.callers() == 0;
        nobody(&self.turns)
            && nobody(&self.waiting)
            && self.lines.is_empty()
            && self.order.is_empty()
    }

    /// Takes a turn if one is free. If others have to wait already, a newcomer
    /// waits behind them.
    pub(super) fn begin(&mut self, caller: &C, weight: usize) -> bool {
        let is_free = self.order.is_empty()
            && !self.lines.contains_key(caller)
            && self.has_part(caller, weight)
            && self.has_room(weight);
        if is_free {
            self.turns.add(Some(caller), weight);
        }
        is_free
    }

    pub(super) fn end(&mut self, caller: &C, weight: usize) {
        self.turns.take_off(Some(caller), weight);
        self.dispatch_after(caller);
    }

    pub(super) fn wait(
        &mut self,
        caller: &C,
        weight: usize,
    ) -> Result<(u64, oneshot::Receiver<()>), QueueFull> {
        match self.waiting.allows(Some(caller), 1) {
            Ok(()) => {}
            Err(Exceeded::Total) => self.refuse_of_the_most(caller)?,
            Err(Exceeded::OfOne) => return Err(QueueFull),
        }
        let (go, gone) = oneshot::channel();
        let number = self.next();
        self.waiting.add(Some(caller), 1);
        let line = self.lines.entry(caller.clone()).or_default();
        line.waiters.insert(number, Waiter { weight, go });
        self.line_up(caller);
        Ok((number, gone))
    }

    pub(super) fn set_turns(&mut self, at_a_time: usize, at_a_time_of_one: usize) {
        self.limits.at_a_time = at_a_time;
        self.limits.at_a_time_of_one = at_a_time_of_one;
        // Only they can be at their own limit, or below it again.
        let with_turns: Vec<C> = self.turns.all_callers().cloned().collect();
        for caller in &with_turns {
            self.line_up(caller);
        }
        self.dispatch();
    }

    fn next(&mut self) -> u64 {
        self.next = self.next.wrapping_add(1);
        self.next
    }

    /// Refuses the newest waiter of the caller with the most, if that is more than
    /// this caller will have. Otherwise this caller is refused.
    fn refuse_of_the_most(&mut self, caller: &C) -> Result<(), QueueFull> {
        let will_have = self.waiting.amount_of(caller).saturating_add(1);
        let (most, count) = self.waiting.most().ok_or(QueueFull)?;
        if count <= will_have {
            return Err(QueueFull);
        }
        let most = most.clone();
        let line = self.lines.get_mut(&most).ok_or(QueueFull)?;
        let (newest, _) = line.waiters.last_key_value().ok_or(QueueFull)?;
        let newest = *newest;
        self.remove(&most, newest);
        Ok(())
    }

    fn remove(&mut self, caller: &C, number: u64) -> Option<Waiter> {
        let line = self.lines.get_mut(caller)?;
        let waiter = line.waiters.remove(&number)?;
        if line.waiters.is_empty()
            && let Some(line) = self.lines.remove(caller)
            && let Some(ticket) = line.ticket
        {
            self.order.remove(&ticket);
        }
        self.waiting.take_off(Some(caller), 1);
        Some(waiter)
    }

    /// Removes a waiter who leaves. Returns false if it did not wait any more.
    pub(super) fn leave(&mut self, caller: &C, number: u64) -> bool {
        let left = self.remove(caller, number).is_some();
        if left {
            // It may have been the first in the order, and too large for what is
            // free.
            self.dispatch_after(caller);
        }
        left
    }

    /// Gives free turns to the next waiters, after something of this caller has
    /// changed.
    pub(super) fn dispatch_after(&mut self, caller: &C) {
        self.line_up(caller);
        self.dispatch();
    }

    /// Gives the caller a place in the order if, and only if, its own limit allows
    /// the turn of its first waiter.
    fn line_up(&mut self, caller: &C) {
        let Some(first) = self.first(caller) else {
            return;
        };
        let has_part = self.has_part(caller, first);
        let next = self.next();
        let Some(line) = self.lines.get_mut(caller) else {
            return;
        };
        match (has_part, line.ticket) {
            (true, None) => {
                line.ticket = Some(next);
                self.order.insert(next, caller.clone());
            }
            (false, Some(ticket)) => {
                line.ticket = None;
                self.order.remove(&ticket);
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    fn first(&self, caller: &C) -> Option<usize> {
        let (_, waiter) = self.lines.get(caller)?.waiters.first_key_value()?;
        Some(waiter.weight)
    }

    fn dispatch(&mut self) {
        while let Some((_, caller)) = self.order.first_key_value() {
            let caller = caller.clone();
            // Smaller turns do not go ahead, or the first would wait forever.
            let fits = self.first(&caller).is_some_and(|w| self.has_room(w));
            if !fits {
                return;
            }
            self.order.pop_first();
            let Some(line) = self.lines.get_mut(&caller) else {
                continue;
            };
            line.ticket = None;
            let Some((&number, _)) = line.waiters.first_key_value() else {
                continue;
            };
            // A waiter who leaves takes this lock first. Then `Queued::drop` gives
            // back a turn that came too late.
            if let Some(waiter) = self.remove(&caller, number)
                && waiter.go.send(()).is_ok()
            {
                self.turns.add(Some(&caller), waiter.weight);
            }
            self.line_up(&caller);
        }
    }

    /// Tells whether the caller's own limit allows one more turn of this weight.
    fn has_part(&self, caller: &C, weight: usize) -> bool {
        let most = self.limits.at_a_time_of_one;
        fits(self.turns.amount_of(caller), weight, most)
    }

    fn has_room(&self, weight: usize) -> bool {
        fits(self.turns.total(), weight, self.limits.at_a_time)
    }
}

/// Tells whether the new amount fits. An amount larger than the limit fits alone.
fn fits(taken: usize, more: usize, limit: usize) -> bool {
    limit == 0 || taken == 0 || taken.saturating_add(more) <= limit
}
