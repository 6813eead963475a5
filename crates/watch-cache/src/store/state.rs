//! The store itself, as its readers see it. Only its [`StoreWriter`] changes it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use arc_swap::ArcSwap;
use kubernetes_wire::representation::Encoding;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use super::earlier_snapshots::EarlierSnapshots;
use super::log::{Log, Window};
use super::namespace_counts::NamespaceCounts;
use super::object_tree::ObjectTree;
use super::tree_leaf::Lineage;
use super::{
    Cursor, Event, Evicted, Gathered, Presentation, Resource, Snapshot, StoredObject, Subscription,
    Topic,
};

/// The store's progress, which readers wait on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub resource_version: u64,
    /// The resource is gone: no more events will come.
    pub closed: bool,
}

pub struct Store {
    pub resource: Resource,
    pub(super) published: ArcSwap<Snapshot>,
    pub(super) log: RwLock<Log>,
    pub(super) earlier: Mutex<EarlierSnapshots>,
    /// The bytes of values that code outside the store made from the objects.
    pub(super) beside: Arc<AtomicUsize>,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) presentation: ArcSwap<Presentation>,
    /// The time at which upstream last said anything about the resource, including
    /// that nothing happened.
    pub(super) heard: Mutex<Option<Instant>>,
    /// For each encoding, whether an object could not be written in it. The
    /// flag stays set: the kind has something that the schema does not know.
    unwritable: [AtomicBool; 2],
    /// Made on first use, because only large resources need it.
    pub(super) namespace_counts: OnceLock<NamespaceCounts>,
    /// Held while something is published.
    pub(super) publishing: Mutex<Publishing>,
}

/// The state that only publications use.
#[derive(Debug, Default)]
pub(super) struct Publishing {
    /// The object of the last event. Its watchers are about to ask for its
    /// other encoding, which was made when it came.
    pub(super) fresh: Option<Arc<StoredObject>>,
}

impl Store {
    /// Makes a store without its writer.
    pub(super) fn unwritten(resource: Resource, objects: Gathered, resource_version: u64) -> Self {
        let log = Log::new(resource_version);
        let Gathered { objects, tally } = objects;
        let snapshot = Snapshot {
            resource_version,
            cursor: log.end(resource_version),
            objects: ObjectTree::new(objects, tally, Lineage::Main),
            epoch: 0,
            departed: 0,
            foreign: 0,
        };
        let (progress, _) = watch::channel(Progress {
            resource_version,
            closed: false,
        });
        Self {
            resource,
            published: ArcSwap::from_pointee(snapshot),
            log: RwLock::new(log),
            earlier: Mutex::default(),
            beside: Arc::default(),
            progress,
            presentation: ArcSwap::default(),
            heard: Mutex::default(),
            unwritable: Default::default(),
            namespace_counts: OnceLock::new(),
            publishing: Mutex::default(),
        }
    }

    pub fn presentation(&self) -> Arc<Presentation> {
        self.presentation.load_full()
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.published.load_full()
    }

    /// Tells whether objects can be written in the encoding.
    pub fn writes(&self, encoding: Encoding) -> bool {
        self.resource.envelope.writes(encoding) && !self.failed_to_write(encoding)
    }

    /// Tells whether [`Store::fail_to_write`] was called.
    pub fn failed_to_write(&self, encoding: Encoding) -> bool {
        let failed = self.unwritable.get(encoding as usize);
        failed.is_none_or(|failed| failed.load(Ordering::Relaxed))
    }

    /// Notes that an object could not be written in the encoding. From now on
    /// upstream answers requests for the encoding.
    pub(crate) fn fail_to_write(&self, encoding: Encoding) {
        if let Some(failed) = self.unwritable.get(encoding as usize) {
            failed.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the number of the history: a reset begins another.
    pub(crate) fn epoch(&self) -> u64 {
        self.snapshot().epoch
    }

    /// Returns the place where a new watch from `version` starts. Everything that
    /// happened since is in the log.
    pub fn begin(&self, version: u64) -> Result<Cursor, Evicted> {
        self.log.read().begin(version)
    }

    /// Returns the place behind the events up to `version`. A resync may have
    /// happened since.
    pub fn position(&self, version: u64) -> Result<Cursor, Evicted> {
        self.log.read().position(version)
    }

    /// Returns the version of the list that ended the last resync, or 0.
    pub(crate) fn last_resync(&self) -> u64 {
        self.log.read().last_resync()
    }

    /// Returns up to `limit` events, oldest first, and moves the cursor past
    /// them.
    pub fn read(&self, cursor: &mut Cursor, limit: usize) -> Result<Vec<Arc<Event>>, Evicted> {
        self.log.read().read(cursor, limit)
    }

    /// Tells whether all events since the cursor can still be read.
    pub fn holds(&self, cursor: &Cursor) -> bool {
        self.log.read().holds(cursor)
    }

    /// Returns a subscription that wakes its holder after every publication
    /// that may concern the topic.
    pub(crate) fn subscribe_to(&self, topic: Topic) -> Subscription {
        self.log.read().subscribe(topic)
    }

    /// Returns a topic's next events, oldest first, and moves the cursor past them.
    /// They have about `bytes` together; at least one is returned if there is any.
    /// Also tells whether these are all.
    pub(crate) fn read_topic(
        &self,
        subscription: &Subscription,
        cursor: &mut Cursor,
        bytes: usize,
    ) -> Result<(Vec<Arc<Event>>, bool), Evicted> {
        self.log.read().read_topic(subscription, cursor, bytes)
    }

    /// Does the same as [`Store::read_topic`] for readers that share a cursor.
    /// Fails also where each of them must read on its own.
    pub(crate) fn read_topic_for_all(
        &self,
        subscription: &Subscription,
        cursor: &mut Cursor,
        bytes: usize,
    ) -> Result<(Vec<Arc<Event>>, bool), Evicted> {
        let log = self.log.read();
        log.read_topic_for_all(subscription, cursor, bytes)
    }

    /// Returns a receiver that wakes its holder after every publication.
    pub fn subscribe(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Returns the highest version that any reader of the store can know by now.
    /// Events are in the log before progress announces them.
    pub fn highest_version(&self) -> u64 {
        let logged = self.log.read().last_version();
        logged.max(self.progress().resource_version)
    }

    /// Returns the reach of the event history.
    pub fn window(&self) -> Window {
        self.log.read().window()
    }

    /// Returns the time at which upstream last said anything about the
    /// resource. `None` until upstream has done so after the first list.
    pub fn heard_at(&self) -> Option<Instant> {
        *self.heard.lock()
    }

    /// Returns about how many objects of a snapshot of this store are in a
    /// namespace.
    pub fn count_about(&self, snapshot: &Snapshot, namespace: &str) -> usize {
        let counts = self.namespace_counts.get_or_init(NamespaceCounts::new);
        counts.about(snapshot, namespace)
    }
}
