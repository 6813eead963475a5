//! The history of a resource, bounded by bytes and age.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::topic::Topics;
use super::{Cursor, Event, Subscription, Topic};

/// The age up to which events stay, if `HISTORY_BYTES` allows it. A client that was
/// away for this time can resume. kube-apiserver promises 75 s; its documentation
/// speaks of 5 minutes.
pub const HISTORY_AGE: Duration = Duration::from_secs(300);

/// The most bytes that one resource's history may hold. At the bound the oldest
/// events are dropped, and a watcher that still needed them is closed.
pub(crate) const HISTORY_BYTES: usize = 64 << 20;

/// The number of events that are kept at any age, as in kube-apiserver's watch
/// cache.
const HISTORY_MIN_EVENTS: usize = 100;

/// The most gaps that are remembered. At the bound, history begins after the oldest
/// gap: with this many resyncs, little history is worth keeping.
const MAX_GAPS: usize = 32;

/// The reach of a history into the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub events: usize,
    /// New watches can start at this version and above.
    pub oldest_version: u64,
    /// The time at which the oldest event was recorded.
    pub oldest_at: Option<Instant>,
}

/// The log no longer has what a reader at the cursor or the version needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the history begins at version {oldest}")]
pub struct Evicted {
    /// Watches can start at this version and above.
    pub oldest: u64,
    /// The version lies within a resync. A client that got only a part of the resync
    /// cannot go on at upstream either. Upstream's history has events that this log
    /// never had, and does not have the deletions at the versions that this log gave
    /// them.
    pub within_resync: bool,
}

impl Evicted {
    fn before(floor: u64) -> Self {
        Self {
            oldest: floor,
            within_resync: false,
        }
    }

    fn within(gap: &Gap) -> Self {
        Self {
            oldest: gap.listed,
            within_resync: true,
        }
    }
}

/// A resync: only the result of the changes between two versions is known. A reader
/// may know the state at a version in between, from a list that upstream answered.
/// It cannot be told what came after, because it is unknown which deletions it has
/// already seen.
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

#[derive(Clone, Copy, Debug)]
struct Limits {
    age: Duration,
    bytes: usize,
    min_events: usize,
    gaps: usize,
}

#[derive(Debug)]
pub(super) struct Log {
    limits: Limits,
    events: VecDeque<Arc<Event>>,
    /// Sequence number of `events[0]`.
    first: u64,
    bytes: usize,
    /// Bytes of the events' frames. Frames are made after the events.
    frame_bytes: Arc<AtomicUsize>,
    /// Total bytes of the objects that events have ever replaced or deleted.
    departed: u64,
    /// The part of `departed` that belongs to events that have left the log.
    evicted: u64,
    /// Every event above this version is in the log.
    floor: u64,
    /// The gaps, oldest first. Each ends above the floor.
    gaps: VecDeque<Gap>,
    /// The gap that was last removed from `gaps`.
    forgotten: Option<Gap>,
    /// Cursors below this sequence number belong to another history.
    began: u64,
    pub(super) topics: Arc<Topics>,
}

impl Log {
    pub(super) fn new(floor: u64) -> Self {
        let limits = Limits {
            age: HISTORY_AGE,
            bytes: HISTORY_BYTES,
            min_events: HISTORY_MIN_EVENTS,
            gaps: MAX_GAPS,
        };
        Self::with_limits(floor, limits)
    }

    fn with_limits(floor: u64, limits: Limits) -> Self {
        Self {
            limits,
            events: VecDeque::new(),
            first: 0,
            bytes: 0,
            frame_bytes: Arc::default(),
            departed: 0,
            evicted: 0,
            floor,
            gaps: VecDeque::new(),
            forgotten: None,
            began: 0,
            topics: Arc::default(),
        }
    }

    /// Forgets everything: no earlier cursor stays valid.
    pub(super) fn reset(&mut self, floor: u64) {
        // The extra step invalidates cursors that stand at the end, too.
        self.first = self.next().saturating_add(1);
        self.began = self.first;
        self.events.clear();
        self.gaps.clear();
        self.forgotten = None;
        self.bytes = 0;
        self.evicted = self.departed;
        self.floor = floor;
        self.topics.clear();
        self.topics.touch_all();
    }

    pub(super) fn window(&self) -> Window {
        Window {
            events: self.events.len(),
            oldest_version: self.since(),
            oldest_at: self.events.front().map(|event| event.recorded_at),
        }
    }

    /// Returns the version from which on everything that happened is in the log.
    fn since(&self) -> u64 {
        self.floor.max(self.last_resync())
    }

    pub(super) fn last_resync(&self) -> u64 {
        let last = self.gaps.back().or(self.forgotten.as_ref());
        last.map_or(0, |gap| gap.listed)
    }

    /// Returns the sequence number of the next event.
    fn next(&self) -> u64 {
        self.first.saturating_add(self.events.len() as u64)
    }

    /// Returns the place of a reader that knows everything up to `version`, the
    /// newest.
    pub(super) fn end(&self, version: u64) -> Cursor {
        Cursor {
            next: self.next(),
            version,
        }
    }

    pub(super) fn append(&mut self, event: Arc<Event>) {
        self.bytes = self.bytes.saturating_add(event.held());
        event.count_frames(&self.frame_bytes);
        self.departed = self.departed.saturating_add(replaced_bytes(&event));
        self.topics.append(&event, self.next());
        self.events.push_back(event);
    }

    /// Notes that the events appended next are the result of a resync.
    pub(super) fn resync(&mut self, seen: u64, listed: u64) {
        if listed.saturating_sub(seen) < 2 {
            return;
        }
        self.gaps.push_back(Gap {
            seen,
            listed,
            first: self.next(),
        });
        // Subscribers that wait for an event inside this gap must learn of it.
        self.topics.touch_all();
        if self.gaps.len() > self.limits.gaps
            && let Some(oldest) = self.gaps.front()
        {
            let listed = oldest.listed;
            let gone = |e: &Arc<Event>| e.resource_version <= listed;
            while self.events.front().is_some_and(gone) {
                self.forget_oldest();
            }
            self.floor = self.floor.max(listed);
            self.forget_gaps();
        }
    }

    /// Drops events that are too old or beyond the bytes allowed.
    pub(super) fn evict(&mut self, now: Instant) {
        while self.events.len() > 1 {
            let Some(oldest) = self.events.front() else {
                return;
            };
            let old = now.saturating_duration_since(oldest.recorded_at) > self.limits.age
                && self.events.len() > self.limits.min_events;
            if !old && self.bytes() <= self.limits.bytes {
                return;
            }
            self.forget_oldest();
        }
    }

    /// Drops the oldest events until at most `bytes` are held. Events recorded
    /// at `keep` or later stay.
    pub(super) fn trim(&mut self, bytes: usize, keep: Instant) {
        while self.bytes() > bytes && self.events.front().is_some_and(|e| e.recorded_at < keep) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.events.pop_front() {
            self.bytes = self.bytes.saturating_sub(oldest.held());
            self.evicted = self.evicted.saturating_add(replaced_bytes(&oldest));
            self.floor = oldest.resource_version;
            self.topics.evict(&oldest, self.first);
            self.first = self.first.saturating_add(1);
        }
        self.forget_gaps();
    }

    fn forget_gaps(&mut self) {
        while self.gaps.front().is_some_and(|g| g.listed <= self.floor) {
            self.forgotten = self.gaps.pop_front();
        }
    }

    /// Returns the place where a new watch from `version` starts. Fails if a resync
    /// ended after that version: its events are the difference of two states, and
    /// not all that happened between them.
    pub(super) fn begin(&self, version: u64) -> Result<Cursor, Evicted> {
        let place = self.position(version)?;
        let since = self.since();
        match version < since {
            true => Err(Evicted::before(since)),
            false => Ok(place),
        }
    }

    /// Returns the place behind the events up to `version`: the next event is the
    /// first above that version. A version above all of the log is at the end.
    pub(super) fn position(&self, version: u64) -> Result<Cursor, Evicted> {
        if version < self.floor {
            return Err(Evicted::before(self.floor));
        }
        if let Some(gap) = self.gaps.iter().find(|g| g.holds(version)) {
            return Err(Evicted::within(gap));
        }
        let skipped = self
            .events
            .partition_point(|e| e.resource_version <= version);
        Ok(Cursor {
            next: self.first.saturating_add(skipped as u64),
            version,
        })
    }

    /// Returns up to `limit` events from the cursor on, and moves the cursor
    /// past them.
    pub(super) fn read(
        &self,
        cursor: &mut Cursor,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, Evicted> {
        self.check(cursor)?;
        if cursor.next < self.first {
            return Err(Evicted::before(self.floor));
        }
        let read: Vec<_> = self.from(cursor.next).take(limit).cloned().collect();
        cursor.next = cursor.next.saturating_add(read.len() as u64);
        self.pass_gaps(cursor);
        Ok(read)
    }

    /// Subscribes to a topic. From now on the log keeps the sequence numbers of
    /// the topic's events.
    pub(super) fn subscribe(&self, topic: Topic) -> Subscription {
        self.topics.join(topic, self.next())
    }

    /// Tells whether every event from the cursor on is in the log.
    pub(super) fn holds(&self, cursor: &Cursor) -> bool {
        cursor.next >= self.first && self.check(cursor).is_ok()
    }

    /// Does the work of [`Store::read_topic`](super::Store::read_topic).
    pub(super) fn read_topic(
        &self,
        subscription: &Subscription,
        cursor: &mut Cursor,
        bytes: usize,
    ) -> Result<(Vec<Arc<Event>>, bool), Evicted> {
        self.check(cursor)?;
        let known = subscription.line.events.read();
        if cursor.next < known.lost || cursor.next < known.since.min(self.first) {
            return Err(Evicted::before(self.floor));
        }
        // Events published before the first subscription have no number in the
        // topic.
        let unknown = (cursor.next..known.since).zip(self.from(cursor.next));
        let unknown = unknown.filter(|(_, event)| subscription.topic.holds(event));
        let begun = known.numbers.partition_point(|n| *n < cursor.next);
        let numbers = known.numbers.range(begun..);
        let known = numbers.filter_map(|n| Some((*n, self.from(*n).next()?)));
        let (mut read, mut left) = (Vec::new(), bytes);
        for (number, event) in unknown.chain(known) {
            cursor.next = number.saturating_add(1);
            read.push(event.clone());
            left = left.saturating_sub(event.size());
            if left == 0 {
                return Ok((read, false));
            }
        }
        cursor.next = self.next();
        self.pass_gaps(cursor);
        Ok((read, true))
    }

    /// Does the same as [`read_topic`](Self::read_topic) for readers that share a
    /// cursor. Fails also at a gap: what each of them gets after it depends on the
    /// version that it knows.
    pub(super) fn read_topic_for_all(
        &self,
        subscription: &Subscription,
        cursor: &mut Cursor,
        bytes: usize,
    ) -> Result<(Vec<Arc<Event>>, bool), Evicted> {
        let mut gaps = self.gaps.back().into_iter().chain(&self.forgotten);
        match gaps.find(|gap| gap.first >= cursor.next) {
            Some(gap) => Err(Evicted::within(gap)),
            None => self.read_topic(subscription, cursor, bytes),
        }
    }

    /// Fails if it is unknown what the reader must get next.
    fn check(&self, cursor: &Cursor) -> Result<(), Evicted> {
        if cursor.next < self.began {
            return Err(Evicted::before(self.floor));
        }
        // The cursor's version was above the log's end, and upstream's history
        // was lost before the log reached that version.
        let ahead = self
            .gaps
            .iter()
            .rev()
            .take_while(|g| g.first >= cursor.next);
        if let Some(gap) = ahead.into_iter().find(|g| g.holds(cursor.version)) {
            return Err(Evicted::within(gap));
        }
        // A forgotten gap may have held the version, too. Every reader that the gap
        // woke and that has not read on since gets the error.
        match &self.forgotten {
            Some(gap) if gap.first >= cursor.next && cursor.version < gap.listed => {
                Err(Evicted::before(self.floor))
            }
            _ => Ok(()),
        }
    }

    fn from(&self, number: u64) -> impl Iterator<Item = &Arc<Event>> {
        let skip = number.saturating_sub(self.first);
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        self.events.range(skip.min(self.events.len())..)
    }

    /// A reader that has read everything has passed every gap.
    fn pass_gaps(&self, cursor: &mut Cursor) {
        if cursor.next == self.next() {
            let gap = self.gaps.back().map_or(self.floor, |gap| gap.listed);
            cursor.version = cursor.version.max(gap);
        }
    }

    /// Tells whether all events from this place on are in the log.
    pub(super) fn has(&self, cursor: Cursor) -> bool {
        cursor.next >= self.first
    }

    pub(super) fn between(&self, from: Cursor, to: Cursor) -> Vec<Arc<Event>> {
        let skip = usize::try_from(from.next.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let take = usize::try_from(to.distance(from)).unwrap_or(usize::MAX);
        self.events.iter().skip(skip).take(take).cloned().collect()
    }

    /// Returns the events after `version`, the last resync and the floor, oldest
    /// first. The first value is the version that they begin after.
    pub(super) fn tail(&self, version: u64) -> (u64, Vec<Arc<Event>>) {
        let since = self.since().max(version);
        let skipped = self.events.partition_point(|e| e.resource_version <= since);
        (since, self.events.range(skipped..).cloned().collect())
    }

    pub(super) fn bytes(&self) -> usize {
        let frames = self.frame_bytes.load(Ordering::Relaxed);
        self.bytes.saturating_add(frames)
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns a version that a reader at the cursor knows. No event before the
    /// cursor is above it.
    pub(super) fn version_at(&self, cursor: Cursor) -> Result<u64, Evicted> {
        self.check(&cursor)?;
        let Some(read) = cursor.next.checked_sub(self.first) else {
            return Err(Evicted::before(self.floor));
        };
        let last = usize::try_from(read).unwrap_or(usize::MAX).checked_sub(1);
        let last = last.and_then(|last| self.events.get(last));
        Ok(last.map_or(self.floor, |event| event.resource_version))
    }

    /// Returns the version of the last event, or the floor.
    pub(super) fn last_version(&self) -> u64 {
        let last = self.events.back().map(|event| event.resource_version);
        last.unwrap_or(self.floor)
    }

    pub(super) fn departed(&self) -> u64 {
        self.departed
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted
    }
}

fn replaced_bytes(event: &Event) -> u64 {
    event.previous.as_ref().map_or(0, |o| o.size() as u64)
}

#[cfg(test)]
mod tests;
