//! Reads the present figures of `/metrics` for the history of the status page.

use std::time::Instant;

use super::gauges;
use super::generation::Generation;
use crate::status::Reading;

impl Generation {
    pub(in crate::server) fn reading(&self, now: Instant) -> Reading {
        let metrics = &self.metrics;
        let reads = metrics.cache.reads();
        let answered = |hit: bool| reads.iter().filter(move |r| r.is_hit() == hit);
        let count = |hit| answered(hit).map(|r| r.count).fold(0, u64::saturating_add);
        let usage = self.usage.read();
        Reading {
            at: now,
            requests: metrics.requests.total(),
            hits: count(true),
            bypasses: count(false),
            upstream_requests: metrics.upstream.total(),
            cpu: usage.cpu,
            watchers: metrics.cache.watchers(),
            cache_bytes: self.cache_bytes(now),
            resident_bytes: usage.resident_bytes,
        }
    }

    fn cache_bytes(&self, now: Instant) -> u64 {
        let entries = self.cache.entries().into_iter();
        let of_entry = |entry: &apifront_watch_cache::reflector::Entry| {
            let state = gauges::state(entry, &*entry.store()?, now);
            Some(state.bytes.into_iter().fold(0, usize::saturating_add))
        };
        let bytes = entries.filter_map(|entry| of_entry(&entry));
        let sum = bytes.fold(0, usize::saturating_add);
        u64::try_from(sum).unwrap_or(u64::MAX)
    }
}
