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

    /// How many events lie between two places.
    pub(super) fn distance(self, other: Self) -> u64 {
        self.next.abs_diff(other.next)
    }

    pub(super) fn is_before(self, other: Self) -> bool {
        self.next < other.next
    }

    /// The same place, for a reader who knows everything up to `version`.
    pub(super) fn knowing(self, version: u64) -> Self {
        Self { version, ..self }
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

/// What a log keeps.
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
    /// Bytes of the objects that events ever replaced or deleted.
    departed: u64,
    /// The same of the events that are not in the log any more.
    evicted: u64,
    /// Every event above this version is in the log.
    floor: u64,
    /// In order, none that ends at or below the floor.
    gaps: VecDeque<Gap>,
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
            departed: 0,
            evicted: 0,
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
        self.evicted = self.departed;
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
        self.departed += replaced_bytes(&event);
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
        if self.gaps.len() > self.limits.gaps
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
            let old = now.saturating_duration_since(oldest.recorded_at) > self.limits.age
                && self.events.len() > self.limits.min_events;
            if !old && self.bytes <= self.limits.bytes {
                return;
            }
            self.forget_oldest();
        }
    }

    /// Drops the oldest until no more than `bytes` are held.
    pub(super) fn trim(&mut self, bytes: usize) {
        while self.bytes > bytes && !self.events.is_empty() {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.events.pop_front() {
            self.bytes -= oldest.size();
            self.evicted += replaced_bytes(&oldest);
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

    /// Whether all events from this place on are in the log.
    pub(super) fn has(&self, cursor: Cursor) -> bool {
        cursor.next >= self.first
    }

    /// The events from one place in the log to a later one.
    pub(super) fn between(&self, from: Cursor, to: Cursor) -> Vec<Arc<Event>> {
        let skip = usize::try_from(from.next.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let take = usize::try_from(to.distance(from)).unwrap_or(usize::MAX);
        self.events.iter().skip(skip).take(take).cloned().collect()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn floor(&self) -> u64 {
        self.floor
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
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::api::GroupVersionResource;
    use crate::store::{Change, StoredObject, field_table};

    fn event(version: u64, padding: usize, now: Instant) -> Arc<Event> {
        let fields = field_table(&GroupVersionResource::new("", "v1", "configmaps"));
        let padding = "x".repeat(padding);
        let item = format!(
            r#"{{"metadata":{{"name":"a","resourceVersion":"{version}"}},"data":"{padding}"}}"#
        );
        let object = Arc::new(StoredObject::parse(Bytes::from(item), &fields).unwrap());
        Arc::new(Event::new(Change::Modified, version, object, None, now))
    }

    #[derive(Clone, Debug)]
    enum Step {
        Append { skip: u64, padding: usize },
        Sleep { seconds: u64 },
        Resync { events: u64, skip: u64 },
        Reset { version: u64 },
        Begin { back: u64 },
        Read { reader: usize, limit: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (1..4u64, 0..400usize).prop_map(|(skip, padding)| Step::Append { skip, padding }),
            2 => (0..8u64).prop_map(|seconds| Step::Sleep { seconds }),
            1 => (0..4u64, 0..9u64).prop_map(|(events, skip)| Step::Resync { events, skip }),
            1 => (0..60u64).prop_map(|version| Step::Reset { version }),
            4 => (0..30u64).prop_map(|back| Step::Begin { back }),
            8 => (0..9usize, 1..9usize).prop_map(|(reader, limit)| Step::Read { reader, limit }),
        ]
    }

    const LIMITS: Limits = Limits {
        age: Duration::from_secs(20),
        bytes: 4_000,
        min_events: 5,
        gaps: 2,
    };

    /// All that ever happened, and what of it a log must still have.
    struct Model {
        log: Log,
        now: Instant,
        version: u64,
        /// Version, size, time of every event since the last reset.
        events: Vec<(u64, usize, Instant)>,
        /// How many of them are gone.
        gone: usize,
        floor: u64,
        gaps: Vec<(u64, u64)>,
        readers: Vec<Reader>,
    }

    struct Reader {
        cursor: Cursor,
        began: u64,
        /// Index of the next event in the model.
        next: usize,
        /// The log was reset since.
        lost: bool,
    }

    impl Model {
        fn append(&mut self, version: u64, padding: usize) {
            let event = event(version, padding, self.now);
            self.events.push((version, event.size(), self.now));
            self.version = version;
            self.log.append(event);
        }

        fn evict(&mut self) {
            self.log.evict(self.now);
            loop {
                let kept = &self.events[self.gone..];
                let [(version, _, at), _, ..] = kept else {
                    return;
                };
                let old = self.now - *at > LIMITS.age && kept.len() > LIMITS.min_events;
                let bytes: usize = kept.iter().map(|e| e.1).sum();
                if !old && bytes <= LIMITS.bytes {
                    return;
                }
                self.floor = *version;
                self.gone += 1;
            }
        }

        fn run(&mut self, step: Step) {
            match step {
                Step::Append { skip, padding } => {
                    self.append(self.version + skip, padding);
                    self.evict();
                }
                Step::Sleep { seconds } => {
                    self.now += Duration::from_secs(seconds);
                    self.evict();
                }
                Step::Resync { events, skip } => {
                    let (seen, listed) = (self.version, self.version + events + skip);
                    self.log.resync(seen, listed);
                    if listed > seen + 1 {
                        self.gaps.push((seen, listed));
                        self.gaps.retain(|(_, listed)| *listed > self.floor);
                        if self.gaps.len() > LIMITS.gaps {
                            self.floor = self.floor.max(self.gaps.remove(0).1);
                            self.gone = self.events.partition_point(|e| e.0 <= self.floor);
                        }
                    }
                    for version in seen + 1..=seen + events {
                        self.append(version, 0);
                    }
                    self.version = listed;
                    self.evict();
                }
                Step::Reset { version } => {
                    self.log.reset(version);
                    (self.version, self.floor, self.gone) = (version, version, 0);
                    self.events.clear();
                    self.gaps.clear();
                    self.readers.iter_mut().for_each(|r| r.lost = true);
                }
                Step::Begin { back } => {
                    // Below the floor, in the log and above it.
                    let version = (self.version + 5).saturating_sub(back);
                    let began = self.log.position(version);
                    let gap = self.gaps.iter().any(|(s, l)| *s < version && version < *l);
                    assert_eq!(began.is_err(), version < self.floor || gap, "{version}");
                    if let Ok(cursor) = began {
                        self.readers.push(Reader {
                            cursor,
                            began: version,
                            next: self.events.partition_point(|e| e.0 <= version),
                            lost: false,
                        });
                    }
                }
                Step::Read { reader, limit } => {
                    if self.readers.is_empty() {
                        return;
                    }
                    let index = reader % self.readers.len();
                    let reader = &mut self.readers[index];
                    let read = self.log.read(&mut reader.cursor, limit);
                    let in_gap = |(s, l): &(u64, u64)| {
                        let waited = self.events[..reader.next.min(self.events.len())]
                            .last()
                            .is_none_or(|e| e.0 <= *s);
                        *s < reader.began && reader.began < *l && waited
                    };
                    let lost =
                        reader.lost || reader.next < self.gone || self.gaps.iter().any(in_gap);
                    let Ok(read) = read else {
                        assert!(lost);
                        self.readers.remove(index);
                        return;
                    };
                    assert!(!lost);
                    let versions: Vec<_> = read.iter().map(|e| e.resource_version).collect();
                    let expected: Vec<_> = self.events[reader.next..]
                        .iter()
                        .take(limit)
                        .map(|e| e.0)
                        .collect();
                    assert_eq!(versions, expected);
                    reader.next += versions.len();
                }
            }
            let bytes: usize = self.events[self.gone..].iter().map(|e| e.1).sum();
            assert_eq!(self.log.bytes(), bytes);
            assert!(self.log.gaps.len() <= LIMITS.gaps);
        }
    }

    proptest! {
        #[test]
        fn readers_get_all_in_order_or_are_told(steps in proptest::collection::vec(step(), 1..120)) {
            let mut model = Model {
                log: Log::with_limits(10, LIMITS),
                now: Instant::now(),
                version: 10,
                events: vec![],
                gone: 0,
                floor: 10,
                gaps: vec![],
                readers: vec![],
            };
            for step in steps {
                model.run(step);
            }
        }
    }
}
