//! Updates the gauges that are not updated with every event.

use std::time::{Duration, Instant};

use apifront_watch_cache::reflector::Entry;
use apifront_watch_cache::store::Store;

use super::generation::Generation;
use crate::metrics::CacheState;

impl Generation {
    pub(in crate::server) fn observe_cache(&self) {
        self.discovery.observe();
        let now = Instant::now();
        for entry in self.cache.entries() {
            let Some(store) = entry.store() else { continue };
            let state = state(&entry, &store, now);
            let gauges = self.metrics.cache.resource(&entry.gvr);
            gauges.observe(&state);
            gauges
                .settle
                .set(entry.freshness().settle(now).as_secs_f64());
            gauges
                .suspended
                .set(entry.freshness().is_suspended(now).into());
            for late in entry.freshness().take_late() {
                gauges.late_event(late.broken);
            }
        }
        let backends = self.aggregation.distinct_backends().into_iter();
        let others = backends.map(|backend| backend.upstream.load_full());
        for upstream in std::iter::once(self.upstream.load_full()).chain(others) {
            for endpoint in upstream.endpoints() {
                self.metrics
                    .upstream
                    .healthy(&endpoint.name, endpoint.is_healthy());
            }
        }
    }
}

pub(in crate::server) fn state(entry: &Entry, store: &Store, now: Instant) -> CacheState {
    let snapshot = store.snapshot();
    let memory = store.memory();
    let since = |then: Option<Instant>| {
        then.map_or(Duration::ZERO, |then| now.saturating_duration_since(then))
    };
    let lag = entry.lifecycle().disconnected_for(now);
    CacheState {
        objects: snapshot.len(),
        bytes: [
            memory.objects,
            memory.history,
            memory.derived,
            memory.retained,
        ],
        resource_version: snapshot.resource_version,
        snapshots: memory.snapshots,
        // Until the first event, the list is stale only if the connection is lost.
        staleness: since(store.heard_at()).max(lag),
        proof_age: entry
            .freshness()
            .proven_at()
            .map(|at| now.saturating_duration_since(at)),
        lag,
        history: since(store.window().oldest_at),
    }
}
