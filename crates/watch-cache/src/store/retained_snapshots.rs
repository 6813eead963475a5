//! States that somebody is going to ask for again: a continue token names
//! their version.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Snapshot;

/// How long a client may take from one page of a list to the next:
/// kube-apiserver's etcd is compacted as often, and its documentation promises
/// as much.
pub(crate) const RETENTION: Duration = Duration::from_secs(300);

/// What retained states of one resource may hold on to besides the current
/// state and the history. At the bound the oldest go, and a list that still
/// needed one goes on upstream.
pub(crate) const RETAINED_BYTES: usize = 64 << 20;

/// States retained at most: each has its leaves and nodes. At the bound the
/// oldest goes.
const MAX_STATES: usize = 256;

#[derive(Debug, Default)]
pub(super) struct RetainedSnapshots {
    states: BTreeMap<u64, State>,
}

#[derive(Debug)]
struct State {
    snapshot: Arc<Snapshot>,
    /// When it was last handed out.
    kept: Instant,
}

impl RetainedSnapshots {
    /// One state per version: whoever reads page after page must not see two.
    pub(super) fn keep(&mut self, snapshot: &Arc<Snapshot>, now: Instant) {
        let version = snapshot.resource_version;
        let state = self.states.entry(version).or_insert_with(|| State {
            snapshot: snapshot.clone(),
            kept: now,
        });
        state.kept = state.kept.max(now);
        if self.states.len() > MAX_STATES {
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

    /// Drops what is too old or too much. `evicted` are the bytes of all
    /// objects that ever left the state and then the history.
    pub(super) fn expire(&mut self, now: Instant, evicted: u64, budget: usize) {
        let is_young = |kept| now.saturating_duration_since(kept) < RETENTION;
        self.states.retain(|_, state| is_young(state.kept));
        while !self.states.is_empty() && self.bytes(evicted) > budget {
            self.states.pop_first();
        }
    }

    /// Bytes of objects that only retained states hold, roughly. An object
    /// that left is laid to the newest state that may have it; a state has no
    /// more than its own bytes of them.
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
