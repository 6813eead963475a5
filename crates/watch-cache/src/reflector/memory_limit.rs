//! Keeps the memory of all stores, and of the data being read, within
//! `cache.memoryLimit`.
//!
//! ```text
//! encodings ─▶ history ─▶ retained states ─▶ resources nobody reads ─▶ newcomers
//! ```
//!
//! A step is taken only if the steps before it did not free enough. After the
//! last step, no more resources are cached until there is room again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::cache::Cache;
use super::entry::Entry;
use super::store_slot::OwnedStore;
use super::unavailable::{MEMORY_RETRY_DELAY, Unavailable};
use crate::Shed;
use crate::store::{Memory, StoreWriter};

/// Events of at most this age are kept even when memory is short, because
/// kube-apiserver promises them to clients that resume.
const HISTORY_AT_LEAST: Duration = Duration::from_secs(75);

/// A resource read within this time is not idle. It would be listed again at
/// once.
const IDLE_AT_LEAST: Duration = Duration::from_secs(30);

impl Cache {
    /// Frees memory until the limit is kept. `usize::MAX` means no limit.
    pub(super) fn keep_within(&self, limit: usize, now: Instant) {
        self.memory.set_limit(limit);
        let entries = self.entries();
        self.give_up(&entries, limit, now);
        self.memory.hold(entries.iter().map(|e| total(e)).sum());
    }

    fn give_up(&self, entries: &[Arc<Entry>], limit: usize, now: Instant) {
        // Room is made for the bytes that a reader waits for, but no resource
        // is refused for them.
        let wanted = self.memory.wanted();
        let reading = self.memory.reading().saturating_add(wanted);
        let stores: usize = entries.iter().map(|e| total(e)).sum();
        let mut used = stores.saturating_add(reading);
        // A target well below the limit keeps the next event from exceeding it
        // again.
        let target = (limit / 10).saturating_mul(9);
        if used <= limit {
            for entry in entries.iter().filter(|e| e.store().is_some()) {
                entry.lifecycle().admit();
            }
            if used <= target {
                self.full.store(false, Ordering::Relaxed);
            }
            return;
        }
        let before = used;
        let keep = now.checked_sub(HISTORY_AT_LEAST);
        self.shed(entries, Shed::Derived, target, &mut used, |writer, _, _| {
            writer.shed_derived();
        });
        self.shed(
            entries,
            Shed::History,
            target,
            &mut used,
            |writer, m, more| {
                if let Some(keep) = keep {
                    writer.trim_history(m.history.saturating_sub(more), keep);
                }
            },
        );
        self.shed(
            entries,
            Shed::Retained,
            target,
            &mut used,
            |writer, _, _| {
                writer.drop_retained();
            },
        );
        self.stop_least_used(entries, target, &mut used, now);
        used = used.saturating_sub(wanted);
        self.full.store(used > limit, Ordering::Relaxed);
        if used > limit {
            self.refuse_newcomers(entries, limit, &mut used, now);
        }
        tracing::info!(limit, before, after = used, "memory given up");
    }

    /// Frees one kind of memory in stores, the largest first, until `used` is
    /// down to `target`.
    fn shed(
        &self,
        entries: &[Arc<Entry>],
        what: Shed,
        target: usize,
        used: &mut usize,
        give_up: impl Fn(&StoreWriter, &Memory, usize),
    ) {
        let part = |m: &Memory| match what {
            Shed::Unused | Shed::Derived => m.derived,
            Shed::History => m.history,
            Shed::Retained => m.retained,
            Shed::Idle | Shed::Refused => m.total(),
        };
        let mut stores: Vec<_> = entries.iter().filter_map(|e| e.owned().clone()).collect();
        stores.sort_by_cached_key(|owned| std::cmp::Reverse(part(&owned.store.memory())));
        for owned in stores {
            let OwnedStore { store, writer } = &*owned;
            let memory = store.memory();
            let Some(more) = used.checked_sub(target).filter(|more| *more > 0) else {
                return;
            };
            if part(&memory) == 0 {
                return;
            }
            give_up(writer, &memory, more);
            let freed = memory.total().saturating_sub(store.memory().total());
            if freed > 0 {
                *used = used.saturating_sub(freed);
                self.observer.shed(what);
            }
        }
    }

    fn stop_least_used(
        &self,
        entries: &[Arc<Entry>],
        target: usize,
        used: &mut usize,
        now: Instant,
    ) {
        let idle = |entry: &Entry| {
            !entry.lifecycle().is_preloaded()
                && !entry.is_read()
                && entry.usage().unused_for(now) > IDLE_AT_LEAST
        };
        let mut idles: Vec<_> = entries.iter().filter(|e| idle(e)).collect();
        idles.sort_by_key(|e| std::cmp::Reverse(e.usage().unused_for(now)));
        for entry in idles {
            if *used <= target {
                return;
            }
            let bytes = total(entry);
            if self.stop(&entry.gvr, "no memory, and not read", idle) {
                *used = used.saturating_sub(bytes);
                self.observer.shed(Shed::Idle);
            }
        }
    }

    /// Stops resources that were never within the limit, the largest first.
    fn refuse_newcomers(
        &self,
        entries: &[Arc<Entry>],
        limit: usize,
        used: &mut usize,
        now: Instant,
    ) {
        let newcomers = entries.iter().filter(|e| !e.lifecycle().is_admitted());
        let mut newcomers: Vec<_> = newcomers.map(|e| (total(e), e)).collect();
        newcomers.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        for (bytes, entry) in newcomers {
            if *used <= limit || bytes == 0 {
                return;
            }
            if self.stop(&entry.gvr, "no memory for it", |_| true) {
                *used = used.saturating_sub(bytes);
                self.observer.shed(Shed::Refused);
                self.turn_away(entry, now);
            }
        }
    }

    /// Replaces a stopped entry by one that refuses the resource for lack of
    /// memory.
    fn turn_away(&self, stopped: &Entry, now: Instant) {
        let entry = Entry::new(stopped.gvr.clone(), stopped.owner.clone(), Instant::now());
        entry.refuse(Unavailable::MemoryLimit, now, MEMORY_RETRY_DELAY);
        let entry = entry.after(stopped);
        let mut entries = self.entries.write();
        entries
            .entry(stopped.gvr.clone())
            .or_insert(Arc::new(entry));
    }
}

fn total(entry: &Entry) -> usize {
    entry.store().map_or(0, |store| store.memory().total())
}
