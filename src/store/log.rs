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

/// Gaps remembered at most. At the bound history begins after the oldest one:
/// whoever resyncs so often has little history worth keeping.
const MAX_GAPS: usize = 32;

/// A reader's place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Sequence number of the next event.
    next: u64,
    /// What the reader knew when it began.
    version: u64,
}

impl Cursor {
    /// The place after the event that is read next from here.
    pub fn next(self) -> Self {
        Self {
            next: self.next + 1,
            ..self
        }
    }
}

/// The log no longer has what the cursor, or the version, asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// Watches can start at this version and above.
    pub oldest: u64,
}

/// A resync: what happened between two versions is known by its result alone.
/// Who knows the state at a version in between, from a list of upstream, cannot
/// be told what came after it: which deletions it has seen is unknown.
#[derive(Debug)]
struct Gap {
    /// The last version before the resync.
    seen: u64,
    /// The version of the list.
    listed: u64,
    /// Sequence number of the first event that the resync found.
    first: u64,
}

impl Gap {
    fn holds(&self, version: u64) -> bool {
        self.seen < version && version < self.listed
    }
}

#[derive(Debug)]
pub(super) struct Log {
    events: VecDeque<Arc<Event>>,
    /// Sequence number of `events[0]`.
    first: u64,
    bytes: usize,
    /// Every event above this version is in the log.
    floor: u64,
    /// In order, none that ends at or below the floor.
    gaps: VecDeque<Gap>,
}

impl Log {
    pub(super) fn new(floor: u64) -> Self {
        Self {
            events: VecDeque::new(),
            first: 0,
            bytes: 0,
            floor,
            gaps: VecDeque::new(),
        }
    }

    /// Forgets everything: no cursor into the past survives.
    pub(super) fn reset(&mut self, floor: u64) {
        // The extra step evicts cursors that stand at the end, too.
        self.first = self.next() + 1;
        self.events.clear();
        self.gaps.clear();
        self.bytes = 0;
        self.floor = floor;
    }

    /// Sequence number of the next event.
    fn next(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// The place of who knows everything up to `version`, the newest.
    pub(super) fn end(&self, version: u64) -> Cursor {
        Cursor {
            next: self.next(),
            version,
        }
    }

    pub(super) fn append(&mut self, event: Arc<Event>) {
        self.bytes += event.size();
        self.events.push_back(event);
    }

    /// The events appended next are the result of a resync.
    pub(super) fn resync(&mut self, seen: u64, listed: u64) {
        if listed.saturating_sub(seen) < 2 {
            return;
        }
        self.gaps.push_back(Gap {
            seen,
            listed,
            first: self.next(),
        });
        if self.gaps.len() > MAX_GAPS
            && let Some(oldest) = self.gaps.pop_front()
        {
            let gone = |e: &Arc<Event>| e.resource_version <= oldest.listed;
            while self.events.front().is_some_and(gone) {
                self.forget_oldest();
            }
            self.floor = self.floor.max(oldest.listed);
        }
    }

    /// Drops what is too old or too much.
    pub(super) fn evict(&mut self, now: Instant) {
        while self.events.len() > 1 {
            let Some(oldest) = self.events.front() else {
                return;
            };
            let old = now.saturating_duration_since(oldest.recorded_at) > HISTORY_AGE
                && self.events.len() > HISTORY_MIN_EVENTS;
            if !old && self.bytes <= HISTORY_BYTES {
                return;
            }
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.events.pop_front() {
            self.bytes -= oldest.size();
            self.floor = oldest.resource_version;
            self.first += 1;
        }
        while self.gaps.front().is_some_and(|g| g.listed <= self.floor) {
            self.gaps.pop_front();
        }
    }

    /// Where a watch from `version` starts: its first event is the first above
    /// that version. A version above all of the log starts at the end.
    pub(super) fn position(&self, version: u64) -> Result<Cursor, Evicted> {
        if version < self.floor {
            return Err(Evicted { oldest: self.floor });
        }
        if let Some(gap) = self.gaps.iter().find(|g| g.holds(version)) {
            return Err(Evicted { oldest: gap.listed });
        }
        let skipped = self
            .events
            .partition_point(|e| e.resource_version <= version);
        Ok(Cursor {
            next: self.first + skipped as u64,
            version,
        })
    }

    /// Up to `limit` events from the cursor on, which moves past them.
    pub(super) fn read(
        &self,
        cursor: &mut Cursor,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, Evicted> {
        if cursor.next < self.first {
            return Err(Evicted { oldest: self.floor });
        }
        // Its version was above the log's end, and upstream's history was lost
        // before the log got there.
        let ahead = self
            .gaps
            .iter()
            .rev()
            .take_while(|g| g.first >= cursor.next);
        if let Some(gap) = ahead.into_iter().find(|g| g.holds(cursor.version)) {
            return Err(Evicted { oldest: gap.listed });
        }
        let skip = usize::try_from(cursor.next - self.first).unwrap_or(usize::MAX);
        let read: Vec<_> = self.events.iter().skip(skip).take(limit).cloned().collect();
        cursor.next += read.len() as u64;
        Ok(read)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
