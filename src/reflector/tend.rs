//! Stopping what is no longer wanted: resources that nobody reads, and those
//! that the configuration has come to exclude or to hide. What there is no memory for is
//! `budget.rs`'s.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cache::Cache;
use super::entry::Entry;
use super::machine;
use crate::api::GroupVersionResource;
use crate::config::{self, Config, MemoryLimit};

/// How often is looked, at least and at most: a quarter of the idle timeout is
/// soon enough, and looking costs microseconds.
const PERIOD: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

impl Cache {
    /// Keeps the cache within what the configuration says at the time.
    pub async fn tend(&self, current: impl Fn() -> Arc<Config>) {
        let automatic = machine::default_limit();
        loop {
            let config = current();
            self.stop_hidden(&config.apis.runtime_config);
            self.look(&config.cache, Instant::now());
            let limit = match config.cache.memory_limit {
                MemoryLimit::Automatic => automatic,
                MemoryLimit::Unlimited => None,
                MemoryLimit::Bytes(bytes) => usize::try_from(bytes).ok(),
            };
            self.metrics.memory.limit(limit);
            self.keep_within(limit.unwrap_or(usize::MAX), Instant::now());
            let period = match config.cache.idle_timeout {
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

    /// The configuration changed: no need to wait.
    pub fn reconfigured(&self) {
        self.attention.notify_one();
    }

    pub(super) fn look(&self, config: &config::Cache, now: Instant) {
        for entry in self.entries() {
            let wanted = config.preload.iter().any(|p| p.matches(&entry.gvr));
            if entry.is_preloaded() && !wanted {
                entry.preload(false);
            }
            if !config.caches(&entry.gvr) {
                self.stop(&entry.gvr, "excluded", |_| true);
            } else if entry.is_preloaded() {
                self.ask_again(&entry, now);
            } else {
                let idle = |entry: &Entry| is_idle(entry, config.idle_timeout, now);
                self.stop(&entry.gvr, "idle", idle);
            }
        }
    }

    /// Its watches end in order; who begins them anew is told 404.
    fn stop_hidden(&self, config: &config::RuntimeConfig) {
        for entry in self.entries() {
            if !config.is_resource_enabled(&entry.gvr) {
                self.stop(&entry.gvr, "hidden", |_| true);
            }
        }
    }

    /// Ends the reflector of a resource if `condition` holds while nobody can
    /// ask for the resource. Who asked before has touched the entry, and holds
    /// its store or finds it closed: then upstream answers.
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

/// A watch is use, as long as it lasts.
fn is_idle(entry: &Entry, timeout: Duration, now: Instant) -> bool {
    if entry.is_read() {
        entry.touch(now);
    }
    !timeout.is_zero() && entry.unused_for(now) > timeout
}
