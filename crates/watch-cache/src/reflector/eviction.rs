//! Stops resources that nobody reads, and resources that a new configuration
//! excludes or hides. `memory_limit.rs` stops resources for lack of memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kubernetes_wire::api::GroupVersionResource;

use super::cache::Cache;
use super::entry::Entry;
use super::store_slot::OwnedStore;
use super::system_memory;
use crate::store::ROUND_TIME;
use crate::{MemoryLimit, Policy, Settings, Shed};

/// The shortest and the longest time between two checks. A quarter of the idle
/// timeout is soon enough, and a check costs microseconds.
const PERIOD: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

impl Cache {
    /// Keeps the cache within the current policy.
    pub async fn run_eviction<P: Policy>(&self, current: impl Fn() -> Arc<P>) {
        let automatic = system_memory::default_memory_limit();
        let mut round = Instant::now();
        loop {
            let policy = current();
            let settings = policy.settings();
            self.stop_hidden(&*policy);
            self.evict_idle(settings, Instant::now());
            let limit = match settings.memory_limit {
                MemoryLimit::Automatic => automatic,
                MemoryLimit::Unlimited => None,
                MemoryLimit::Bytes(bytes) => usize::try_from(bytes).ok(),
            };
            self.observer.memory_limit(limit);
            self.keep_within(limit.unwrap_or(usize::MAX), Instant::now());
            if round.elapsed() >= ROUND_TIME {
                round = Instant::now();
                self.shed_unused().await;
            }
            let period = match settings.idle_timeout {
                Duration::ZERO => PERIOD.1,
                timeout => {
                    let quarter = timeout.checked_div(4).unwrap_or_default();
                    quarter.clamp(PERIOD.0, PERIOD.1)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(period) => {}
                () = self.attention.notified() => {}
            }
        }
    }

    /// Ends a round, and drops the forms of lists that nobody asked for in the
    /// last rounds.
    async fn shed_unused(&self) {
        for entry in self.entries() {
            entry.usage().demand().pass_round();
            let Some(owned) = entry.owned().clone() else {
                continue;
            };
            let derived = move || {
                let OwnedStore { store, writer } = &*owned;
                let before = store.memory().derived;
                writer.shed_unused();
                store.memory().derived < before
            };
            if tokio::task::spawn_blocking(derived).await.unwrap_or(false) {
                self.observer.shed(Shed::Unused);
            }
        }
    }

    /// Wakes the eviction task after a change of the configuration.
    pub fn reconfigured(&self) {
        self.attention.notify_one();
    }

    pub(super) fn evict_idle(&self, settings: &Settings, now: Instant) {
        for entry in self.entries() {
            let wanted = settings.preload.iter().any(|p| p.matches(&entry.gvr));
            if entry.lifecycle().is_preloaded() && !wanted {
                entry.lifecycle().preload(false);
            }
            if settings.pins(&entry.gvr) {
                // A pinned resource is never evicted: apifront itself needs it.
            } else if !settings.caches(&entry.gvr) {
                self.stop(&entry.gvr, "excluded", |_| true);
            } else if entry.lifecycle().is_preloaded() {
                self.ask_again(&entry, now);
            } else {
                let idle = |entry: &Entry| is_idle(entry, settings.idle_timeout, now);
                self.stop(&entry.gvr, "idle", idle);
            }
        }
    }

    /// Stops the resources that the policy hides. Their watches end normally,
    /// and clients that watch again get 404.
    fn stop_hidden(&self, policy: &impl Policy) {
        for entry in self.entries() {
            if !policy.serves(&entry.gvr) {
                self.stop(&entry.gvr, "hidden", |_| true);
            }
        }
    }

    /// Ends the reflector of a resource if `condition` holds. The lock keeps
    /// requests from finding the entry meanwhile. An earlier request has
    /// touched the entry. It either holds the store, or finds the entry closed
    /// and is answered by upstream.
    pub(super) fn stop(
        &self,
        gvr: &GroupVersionResource,
        why: &'static str,
        condition: impl Fn(&Entry) -> bool,
    ) -> bool {
        let mut entries = self.entries.write();
        if !entries.get(gvr).is_some_and(|entry| condition(entry)) {
            return false;
        }
        if let Some(entry) = entries.remove(gvr) {
            tracing::info!(resource = %gvr, why, "no longer cached");
            entry.stop();
        }
        true
    }
}

/// Tells whether a resource is idle. An open watch is a use. While no server
/// can be reached nothing is idle, because it could not be listed again.
fn is_idle(entry: &Entry, timeout: Duration, now: Instant) -> bool {
    if entry.is_read() || entry.upstream().is_unreachable() {
        entry.usage().touch(now);
    }
    !timeout.is_zero() && entry.usage().unused_for(now) > timeout
}
