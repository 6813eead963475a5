//! The history of a resource, bounded by bytes and age.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Event;

/// Events younger than this stay, as long as [`HISTORY_BYTES`] allows: a client
/// may be away for as long and resume. kube-apiserver promises 75 s, its
/// documentation speaks of 5 minutes.
pub const HISTORY_AGE: Duration = Duration::from_secs(300);

/// What one resource's history may hold on to. At the bound the oldest events
/// go, and a watcher that still needed them is closed.
pub const HISTORY_BYTES: usize = 64 << 20;

/// Events kept whatever their age, as in kube-apiserver's watch cache.
const HISTORY_MIN_EVENTS: usize = 100;

/// A reader's place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(u64);

/// The log no longer has what the cursor, or the version, asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Watches can start at this version and above.
    pub oldest: u64,
}

#[derive(Debug)]
pub(super) struct Log {
    events: VecDeque<Arc<Event>>,
    /// Sequence number of `events[0]`.
    first: u64,
    bytes: usize,
    /// Every event above this version is in the log.
    floor: u64,
}

impl Log {
    pub(super) fn new(floor: u64) -> Self {
        Self {
            events: VecDeque::new(),
            first: 0,
            bytes: 0,
            floor,
        }
    }

    /// Forgets everything: no cursor into the past survives.
    pub(super) fn reset(&mut self, floor: u64) {
        // The extra step evicts cursors that stand at the end, too.
        self.first = self.end().0 + 1;
        self.events.clear();
        self.bytes = 0;
        self.floor = floor;
    }

    pub(super) fn end(&self) -> Cursor {
        Cursor(self.first + self.events.len() as u64)
    }

    pub(super) fn append(&mut self, event: Arc<Event>, now: Instant) {
        self.bytes += event.size();
        self.events.push_back(event);
        self.evict(now);
    }

    fn evict(&mut self, now: Instant) {
        while self.events.len() > 1 {
            let Some(oldest) = self.events.front() else {
                return;
            };
            let old = now.saturating_duration_since(oldest.recorded_at) > HISTORY_AGE
                && self.events.len() > HISTORY_MIN_EVENTS;
            if !old && self.bytes <= HISTORY_BYTES {
                return;
            }
            self.bytes -= oldest.size();
            self.floor = oldest.resource_version;
            self.first += 1;
            self.events.pop_front();
        }
    }

    /// Where a watch from `version` starts: its first event is the first above
    /// that version. A version above all of the log starts at the end.
    pub(super) fn position(&self, version: u64) -> Result<Cursor, Evicted> {
        if version < self.floor {
            return Err(Evicted { oldest: self.floor });
        }
        let skipped = self
            .events
            .partition_point(|e| e.resource_version <= version);
        Ok(Cursor(self.first + skipped as u64))
    }

    /// Up to `limit` events from the cursor on, which moves past them.
    pub(super) fn read(
        &self,
        cursor: &mut Cursor,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, Evicted> {
        if cursor.0 < self.first {
            return Err(Evicted { oldest: self.floor });
        }
        let skip = usize::try_from(cursor.0 - self.first).unwrap_or(usize::MAX);
        let read: Vec<_> = self.events.iter().skip(skip).take(limit).cloned().collect();
        cursor.0 += read.len() as u64;
        Ok(read)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
