//! One cached resource: its store, and how well it is doing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::api::GroupVersionResource;
use crate::store::Store;

pub struct Entry {
    pub gvr: GroupVersionResource,
    store: ArcSwapOption<Store>,
    connection: Mutex<Connection>,
    proof: tokio::sync::Mutex<Option<Proof>>,
    /// Turns true when the first list has come, or was refused.
    settled: watch::Sender<bool>,
}

/// Upstream was at `version` or beyond when asked at `asked`, or did not tell.
#[derive(Clone, Copy, Debug)]
struct Proof {
    asked: Instant,
    version: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Connection {
    /// The watch is open.
    Up,
    /// Not since this moment.
    Down { since: Instant },
    /// Upstream refuses; asked again after this moment.
    Refused { until: Instant },
}

impl Entry {
    pub(super) fn new(gvr: GroupVersionResource, now: Instant) -> Self {
        Self {
            gvr,
            store: ArcSwapOption::empty(),
            connection: Mutex::new(Connection::Down { since: now }),
            proof: tokio::sync::Mutex::new(None),
            settled: watch::channel(false).0,
        }
    }

    /// The store, once it is filled.
    pub fn store(&self) -> Option<Arc<Store>> {
        self.store.load_full()
    }

    /// Watchers of a store that was there before are closed.
    pub(super) fn fill(&self, store: Arc<Store>) {
        if let Some(before) = self.store.swap(Some(store)) {
            before.close();
        }
        self.settled.send_replace(true);
    }

    /// The store, waiting for the first list at most this long.
    pub async fn store_within(&self, wait: Duration) -> Option<Arc<Store>> {
        let mut settled = self.settled.subscribe();
        let _in_time = tokio::time::timeout(wait, settled.wait_for(|settled| *settled)).await;
        self.store()
    }

    /// How long ago upstream was lost; zero while it is watched.
    pub fn disconnected_for(&self, now: Instant) -> Duration {
        match *self.connection.lock() {
            Connection::Up => Duration::ZERO,
            Connection::Down { since } => now.saturating_duration_since(since),
            Connection::Refused { .. } => Duration::MAX,
        }
    }

    /// Upstream's version, from an answer to a question asked after this call
    /// began. Callers that wait together share one question, and its failure:
    /// otherwise each would wait for all before it to fail.
    pub async fn proof<F>(&self, ask: impl FnOnce() -> F) -> Option<u64>
    where
        F: Future<Output = Option<u64>>,
    {
        let arrived = Instant::now();
        let mut last = self.proof.lock().await;
        if let Some(proof) = *last
            && proof.asked >= arrived
        {
            return proof.version;
        }
        let asked = Instant::now();
        let version = ask().await;
        *last = Some(Proof { asked, version });
        version
    }

    /// Whether a proof is at most this old.
    pub fn proven_within(&self, age: Duration, now: Instant) -> bool {
        self.proof
            .try_lock()
            .ok()
            .and_then(|last| *last)
            .filter(|p| p.version.is_some())
            .is_some_and(|p| now.saturating_duration_since(p.asked) <= age)
    }

    pub(super) fn refused_until(&self) -> Option<Instant> {
        match *self.connection.lock() {
            Connection::Refused { until } => Some(until),
            Connection::Up | Connection::Down { .. } => None,
        }
    }

    pub(super) fn connected(&self) {
        *self.connection.lock() = Connection::Up;
    }

    pub(super) fn disconnected(&self, now: Instant) {
        let mut connection = self.connection.lock();
        if !matches!(*connection, Connection::Down { .. }) {
            *connection = Connection::Down { since: now };
        }
    }

    /// Drops the store: its watchers are closed.
    pub(super) fn refuse(&self, until: Instant) {
        *self.connection.lock() = Connection::Refused { until };
        self.settled.send_replace(true);
        if let Some(store) = self.store.swap(None) {
            store.close();
        }
    }
}
