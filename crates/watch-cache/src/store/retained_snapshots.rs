//! States that a client is going to ask for again, because a continue token
//! names their version.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Snapshot;

/// The time that a client may take from one page of a list to the next.
/// kube-apiserver compacts its etcd at this interval, and Kubernetes' documentation
/// promises this time.
pub(crate) const RETENTION: Duration = Duration::from_secs(300);

/// The most bytes that retained states of one resource may hold besides the current
/// state and the history. At the bound the oldest states are dropped, and a list
/// that still needed one goes on at upstream.
pub(crate) const MAX_RETAINED_BYTES: usize = 64 << 20;

/// The most states that are retained. Each has its own leaves and nodes. At the
/// bound the oldest state is dropped.
const MAX_RETAINED_STATES: usize = 256;

#[derive(Debug, Default)]
pub(super) struct RetainedSnapshots {
    states: BTreeMap<u64, State>,
}

#[derive(Debug)]
struct State {
    snapshot: Arc<Snapshot>,
    /// The time at which the state was last handed out.
    kept: Instant,
}

impl RetainedSnapshots {
    /// Keeps one state per version: a client that reads page after page must not see
    /// two.
    pub(super) fn keep(&mut self, snapshot: &Arc<Snapshot>, now: Instant) {
        let version = snapshot.resource_version;
        let state = self.states.entry(version).or_insert_with(|| State {
            snapshot: snapshot.clone(),
            kept: now,
        });
        state.kept = state.kept.max(now);
        if self.states.len() > MAX_RETAINED_STATES {
            self.states.pop_first();
        }
    }

    pub(super) fn get(&self, version: u64) -> Option<Arc<Snapshot>> {
        self.states.get(&version).map(|s| s.snapshot.clone())
    }

    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Drops states that are too old or beyond the budget. `evicted` is the
    /// bytes of all objects that have ever left first the state and then the
    /// history.
    pub(super) fn expire(&mut self, now: Instant, evicted: u64, budget: usize) {
        let is_young = |kept| now.saturating_duration_since(kept) < RETENTION;
        self.states.retain(|_, state| is_young(state.kept));
        while !self.states.is_empty() && self.bytes(evicted) > budget {
            self.states.pop_first();
        }
    }

    /// Returns the bytes of objects that only retained states hold, roughly. An
    /// object that left is counted for the newest state that may have it, and a
    /// state counts for at most its own size.
    pub(super) fn bytes(&self, evicted: u64) -> usize {
        let mut until = evicted;
        let mut bytes = 0;
        for state in self.states.values().rev() {
            let snapshot = &state.snapshot;
            let only = until.saturating_sub(snapshot.departed);
            let only = usize::try_from(only).unwrap_or(usize::MAX);
            let held = only.min(snapshot.bytes()).saturating_add(snapshot.foreign);
            bytes = held.saturating_add(bytes);
            until = until.min(snapshot.departed);
        }
        bytes
    }
}
