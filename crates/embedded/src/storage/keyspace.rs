//! The objects of one resource and their recent events.

use std::{collections::VecDeque, sync::Arc};

use imbl::OrdMap;
use parking_lot::RwLock;
use tokio::sync::watch;

use super::commit::{CommitError, Expect};
use super::object::{Key, Stored};

pub(super) type Objects = OrdMap<Key, Arc<Stored>>;

/// A change of one key. `current` is `None` if the object was removed.
#[derive(Clone)]
pub struct Event {
    pub revision: u64,
    pub key: Key,
    pub previous: Option<Arc<Stored>>,
    pub current: Option<Arc<Stored>>,
    /// The last state with the revision of the removal. Only set for removals.
    pub removed: Option<Arc<Stored>>,
    /// The objects of the resource right after the event.
    after: Objects,
}

pub struct Snapshot {
    pub revision: u64,
    pub objects: Objects,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    #[error("history does not reach back that far")]
    TooOld,
    #[error("the revision is in the future; the current one is {current}")]
    Future { current: u64 },
}

/// The error of a cursor before the log's beginning.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the oldest event is at revision {oldest}")]
pub struct TooOld {
    pub oldest: u64,
}

pub struct Keyspace {
    state: RwLock<State>,
    /// Sends the revision of the last event. `None` after the resource was dropped.
    changes: RwLock<Option<watch::Sender<u64>>>,
    changed: watch::Receiver<u64>,
    history: usize,
}

#[derive(Default)]
struct State {
    objects: Objects,
    events: VecDeque<Event>,
    /// The state before the oldest event, and the revision at which it was
    /// reached.
    base: Objects,
    base_revision: u64,
    evicted: bool,
}

impl Keyspace {
    pub(super) fn new(history: usize) -> Self {
        let (sender, changed) = watch::channel(0);
        Self {
            state: RwLock::default(),
            changes: RwLock::new(Some(sender)),
            changed,
            history,
        }
    }

    pub fn get(&self, key: &str) -> Option<Arc<Stored>> {
        self.state.read().objects.get(key).cloned()
    }

    /// Returns a receiver that wakes for every event. It fails when the resource is
    /// dropped.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    /// Returns the newest state. `floor` is a revision read before this call.
    pub fn snapshot(&self, floor: u64) -> Snapshot {
        let state = self.state.read();
        Snapshot {
            revision: state.events.back().map_or(0, |e| e.revision).max(floor),
            objects: state.objects.clone(),
        }
    }

    pub(super) fn snapshot_at(&self, revision: u64) -> Result<Snapshot, SnapshotError> {
        let state = self.state.read();
        let after = state.events.partition_point(|e| e.revision <= revision);
        let objects = match after.checked_sub(1).and_then(|i| state.events.get(i)) {
            Some(event) => event.after.clone(),
            None if revision >= state.base_revision => state.base.clone(),
            None => return Err(SnapshotError::TooOld),
        };
        Ok(Snapshot { revision, objects })
    }

    /// Returns up to `limit` events after `revision`. As in the watch cache, a
    /// revision is too old if it is before the one that precedes the oldest event.
    pub fn events_after(&self, revision: u64, limit: usize) -> Result<Vec<Event>, TooOld> {
        let state = self.state.read();
        if let Some(first) = state.events.front()
            && state.evicted
            && revision < first.revision.saturating_sub(1)
        {
            return Err(TooOld {
                oldest: first.revision,
            });
        }
        let start = state.events.partition_point(|e| e.revision <= revision);
        Ok(state
            .events
            .iter()
            .skip(start)
            .take(limit)
            .cloned()
            .collect())
    }

    pub(super) fn check(&self, key: &str, expect: Expect) -> Result<(), CommitError> {
        match (self.get(key), expect) {
            (None, Expect::Absent) => Ok(()),
            (Some(_), Expect::Absent) => Err(CommitError::Exists),
            (None, Expect::Revision(_)) => Err(CommitError::Missing),
            (Some(found), Expect::Revision(revision)) if found.revision == revision => Ok(()),
            (Some(_), Expect::Revision(_)) => Err(CommitError::Changed),
        }
    }

    pub(super) fn insert(&self, key: Key, object: Arc<Stored>) {
        let mut state = self.state.write();
        let previous = state.objects.insert(key.clone(), object.clone());
        let event = Event {
            revision: object.revision,
            key,
            previous,
            current: Some(object),
            removed: None,
            after: state.objects.clone(),
        };
        state.append(event, self.history);
    }

    pub(super) fn remove(&self, key: &str, revision: u64) -> Option<Arc<Stored>> {
        let mut state = self.state.write();
        let (key, previous) = state.objects.remove_with_key(key)?;
        let removed = Arc::new(previous.restamped(revision));
        let event = Event {
            revision,
            key,
            previous: Some(previous),
            current: None,
            removed: Some(removed.clone()),
            after: state.objects.clone(),
        };
        state.append(event, self.history);
        Some(removed)
    }

    pub(super) fn wake(&self, revision: u64) {
        if let Some(sender) = &*self.changes.read() {
            sender.send_replace(revision);
        }
    }

    pub(super) fn close(&self) {
        self.changes.write().take();
    }
}

impl State {
    fn append(&mut self, event: Event, history: usize) {
        self.events.push_back(event);
        while self.events.len() > history {
            if let Some(oldest) = self.events.pop_front() {
                self.base = oldest.after;
                self.base_revision = oldest.revision;
                self.evicted = true;
            }
        }
    }
}
