//! One cached resource: its store, and the state of its connection to upstream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use apifront_upstream::Upstream;
use arc_swap::{ArcSwap, ArcSwapOption};
use kubernetes_wire::api::{GroupVersionResource, Release};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cache::{REFUSAL, Unavailable};
use super::custom_resource_definition::{self, ListedBy};
use super::origin::Origin;
use super::version_question::{SharedQuestion, VersionQuestion};
use super::watch_lag::{LateEvent, WatchLag};
use super::{freshness_probe, source_encoding};
use crate::store::{Demand, MalformedObject, Store};

/// The longest time for which a resource is not tried again.
const LONGEST_REFUSAL: Duration = Duration::from_secs(600);

/// The form of bookmarks is looked for this often while a watch waits for it.
const BOOKMARK_LOOK: Duration = Duration::from_millis(50);

pub struct Entry {
    pub gvr: GroupVersionResource,
    /// The servers that the resource is read from.
    pub(super) owner: Arc<ArcSwap<Upstream>>,
    store: ArcSwapOption<Store>,
    connection: Mutex<Connection>,
    /// The question about this resource.
    own_question: VersionQuestion,
    /// The question of reads for which another resource's answer will do.
    fresh_question: VersionQuestion,
    /// The question that other resources of the same server share.
    shared_question: Option<Arc<SharedQuestion>>,
    /// Other resources' versions were found to say nothing about this one.
    asks_alone: AtomicBool,
    watch_lag: Mutex<WatchLag>,
    stream: Mutex<Stream>,
    /// Becomes true when the first list has arrived or was refused.
    settled: watch::Sender<bool>,
    began: Instant,
    /// The time of the last request, in milliseconds after `began`.
    used: AtomicU64,
    /// The configuration wants the resource filled before the first request.
    preloaded: AtomicBool,
    /// The resource's protobuf holds something that the schema does not know.
    json_only: AtomicBool,
    /// The release of Kubernetes that the last list came from.
    release: Mutex<Option<Release>>,
    /// The store may be saved.
    savable: bool,
    /// The source of the store, if it may be saved and the source told.
    origin: Mutex<Option<Origin>>,
    /// The definition by which the store was listed.
    listed_by: Mutex<ListedBy>,
    /// The forms in which clients list the resource.
    demand: Arc<Demand>,
    /// The store was filled since somebody asked.
    refilled: AtomicBool,
    /// The resource has been within the memory limit once.
    admitted: AtomicBool,
    /// The last moment at which the store was known to be as upstream.
    proven: Mutex<Option<Instant>>,
    /// The number of times in a row that upstream's answers could not be cached.
    unusable: AtomicU32,
    /// Whether bookmarks were asked for in vain since the last list.
    bookmarkless: AtomicBool,
    stop: CancellationToken,
}

/// The main watch as a sequence of frames.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The number of watches that were opened before this one.
    number: u64,
    open: bool,
    /// The time at which the watch last brought an event or a bookmark.
    heard: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum Connection {
    /// The watch is open.
    Up,
    /// The watch has not been open since this moment.
    Down { since: Instant },
    /// The resource is not cached, for this reason. It is tried again after
    /// this moment.
    Refused { until: Instant, why: Unavailable },
    /// The entry has ended for good. Later requests get another entry.
    Stopped,
}

impl Entry {
    pub(super) fn new(
        gvr: GroupVersionResource,
        owner: Arc<ArcSwap<Upstream>>,
        now: Instant,
    ) -> Self {
        Self {
            gvr,
            owner,
            store: ArcSwapOption::empty(),
            connection: Mutex::new(Connection::Down { since: now }),
            own_question: VersionQuestion::default(),
            fresh_question: VersionQuestion::default(),
            shared_question: None,
            asks_alone: AtomicBool::new(false),
            watch_lag: Mutex::default(),
            stream: Mutex::default(),
            settled: watch::channel(false).0,
            began: now,
            used: AtomicU64::new(0),
            preloaded: AtomicBool::new(false),
            json_only: AtomicBool::new(false),
            release: Mutex::default(),
            savable: false,
            origin: Mutex::default(),
            listed_by: Mutex::default(),
            demand: Arc::default(),
            refilled: AtomicBool::new(false),
            admitted: AtomicBool::new(false),
            proven: Mutex::default(),
            unusable: AtomicU32::new(0),
            bookmarkless: AtomicBool::new(false),
            stop: CancellationToken::new(),
        }
    }

    /// Lets the entry's store be saved.
    pub(super) fn savable(mut self, savable: bool) -> Self {
        self.savable = savable;
        self
    }

    /// Lets the entry share questions with other resources of the same server.
    pub(super) fn sharing(mut self, question: Option<Arc<SharedQuestion>>) -> Self {
        self.shared_question = question;
        self
    }

    /// Lets the entry continue another of the same resource.
    pub(super) fn after(mut self, before: &Self) -> Self {
        self.demand = before.demand.clone();
        self.unusable = AtomicU32::new(before.unusable.load(Ordering::Relaxed));
        self.preload(before.is_preloaded());
        self
    }

    /// Makes an entry that tests feed, and whose upstream has no servers.
    #[cfg(test)]
    pub(super) fn of_nobody(gvr: GroupVersionResource, now: Instant) -> Self {
        let registry = prometheus::Registry::new();
        let metrics = apifront_upstream::UpstreamMetrics::register(&registry).unwrap();
        let nobody = Upstream::new(&Default::default(), metrics).unwrap();
        Self::new(gvr, Arc::new(ArcSwap::from_pointee(nobody)), now)
    }

    /// Returns the servers that the resource is read from.
    pub fn upstream(&self) -> Arc<Upstream> {
        self.owner.load_full()
    }

    /// Asks upstream for its current version of the resource, which is no older
    /// than etcd's at the time of this call. `None` if upstream cannot tell.
    pub(crate) async fn current_version(&self) -> Option<u64> {
        let namespaced = self.store()?.resource.namespaced;
        freshness_probe::listed_version(&self.upstream(), &self.gvr, namespaced).await
    }

    /// Waits until the form of the store's bookmarks is known, for at most
    /// `wait`. A server without initial events shows it some seconds after it
    /// was listed. Nobody waits for a server that was found to show none.
    pub async fn bookmark_within(&self, store: &Store, wait: Duration) {
        let known = async {
            while store.resource.bookmark.get().is_none()
                && !self.bookmarkless.load(Ordering::Relaxed)
            {
                tokio::time::sleep(BOOKMARK_LOOK).await;
            }
        };
        let _in_time = tokio::time::timeout(wait, known).await;
    }

    /// Notes that upstream was asked for bookmarks and sent none.
    pub(super) fn found_bookmarkless(&self) {
        self.bookmarkless.store(true, Ordering::Relaxed);
    }

    /// Returns the store, once it is filled.
    pub fn store(&self) -> Option<Arc<Store>> {
        self.store.load_full()
    }

    /// Puts a store in place. Watchers of an earlier store are closed.
    pub(super) fn fill(&self, store: Arc<Store>) {
        self.bookmarkless.store(false, Ordering::Relaxed);
        if let Some(before) = self.store.swap(Some(store)) {
            before.close();
        }
        self.settled.send_replace(true);
    }

    /// Returns the forms in which clients list the resource.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    /// Notes that the store holds a new list.
    pub(super) fn refilled(&self) {
        self.refilled.store(true, Ordering::Relaxed);
    }

    /// Tells whether the store was filled since the last call.
    pub(super) fn take_refilled(&self) -> bool {
        self.refilled.swap(false, Ordering::Relaxed)
    }

    /// Returns the store. Waits for the first list for at most `wait`.
    pub(crate) async fn store_within(&self, wait: Duration) -> Option<Arc<Store>> {
        let mut settled = self.settled.subscribe();
        let _in_time = tokio::time::timeout(wait, settled.wait_for(|settled| *settled)).await;
        self.store()
    }

    /// Returns the time since upstream was lost, which is zero while it is
    /// watched.
    pub fn disconnected_for(&self, now: Instant) -> Duration {
        match *self.connection.lock() {
            Connection::Up => Duration::ZERO,
            Connection::Down { since } => now.saturating_duration_since(since),
            Connection::Refused { .. } | Connection::Stopped => Duration::MAX,
        }
    }

    /// Returns upstream's version at some time after this call began, from an answer
    /// about this resource, or `None` if upstream cannot tell.
    pub async fn upstream_version(&self) -> Option<u64> {
        self.proof(|| self.current_version()).await
    }

    pub(super) async fn proof<F>(&self, ask: impl FnOnce() -> F) -> Option<u64>
    where
        F: Future<Output = Option<u64>>,
    {
        let ask = async || self.noted(ask().await);
        self.own_question.ask(ask).await.version
    }

    /// Does the same as [`Entry::upstream_version`]; the answer may be one about another
    /// resource.
    pub async fn shared_version(&self) -> Option<u64> {
        let ask = async || match self.version_of_others().await {
            Some(version) => self.noted(Some(version)),
            None => self.own_version().await,
        };
        self.fresh_question.ask(ask).await.version
    }

    /// Notes upstream's version for the measurement of events that are late.
    fn noted(&self, version: Option<u64>) -> Option<u64> {
        if let Some(version) = version {
            self.watch_lag.lock().answered(version, Instant::now());
        }
        version
    }

    async fn own_version(&self) -> Option<u64> {
        let asked = Instant::now();
        let version = self.upstream_version().await?;
        let store = self.store()?;
        // The price of a question about a resource of a cluster grows with its objects,
        // and who writes a definition decides what it costs.
        if store.resource.namespaced
            && !self.has_definition()
            && !self.asks_alone.load(Ordering::Relaxed)
            && let Some(shared) = &self.shared_question
        {
            shared.propose(&self.gvr, asked.elapsed());
        }
        Some(version)
    }

    async fn version_of_others(&self) -> Option<u64> {
        if self.asks_alone.load(Ordering::Relaxed) {
            return None;
        }
        let shared = self.shared_question.as_ref()?;
        let reached = self.store()?.progress().resource_version;
        let upstream = self.upstream();
        let ask = async |about: Arc<GroupVersionResource>| {
            freshness_probe::listed_version(&upstream, &about, true).await
        };
        let version = shared.ask(ask).await?;
        if version < reached {
            // This resource is not in the same etcd.
            self.asks_alone.store(true, Ordering::Relaxed);
            return None;
        }
        Some(version)
    }

    /// Returns the time to wait after a proof for events that are late.
    pub fn settle(&self, now: Instant) -> Duration {
        self.watch_lag.lock().settle(now)
    }

    /// Notes a promise: a caller is told that no event up to this version is
    /// still to come.
    pub fn promise(&self, version: u64) {
        self.watch_lag.lock().promise(version);
    }

    /// Tells whether such promises were broken and are not given for a while.
    pub fn is_suspended(&self, now: Instant) -> bool {
        self.watch_lag.lock().is_suspended(now)
    }

    /// Returns the late events since the last call, for metrics.
    pub fn take_late(&self) -> Vec<LateEvent> {
        self.watch_lag.lock().take()
    }

    /// Returns the last moment at which the store was known to be as upstream:
    /// when a list began, when the main watch brought an event or a bookmark,
    /// or when a probe was sent whose version the store has reached. `None` if
    /// the store does not come from the current upstream.
    pub fn proven_at(&self) -> Option<Instant> {
        *self.proven.lock()
    }

    pub(crate) fn proven(&self, at: Instant) {
        let mut proven = self.proven.lock();
        *proven = proven.max(Some(at));
    }

    /// Notes that upstream was replaced. It may be another cluster now.
    pub(super) fn unproven(&self) {
        *self.proven.lock() = None;
    }

    /// Notes that the main watch has brought everything up to this version, by
    /// an event or by a bookmark.
    pub(super) fn heard(&self, version: u64, is_event: bool, now: Instant) {
        self.proven(now);
        self.stream.lock().heard = Some(now);
        let mut watch_lag = self.watch_lag.lock();
        if !is_event {
            watch_lag.reached(version);
        } else if let Some(late) = watch_lag.event(version, now)
            && late.broken
        {
            // An answer about this resource proves more.
            self.asks_alone.store(true, Ordering::Relaxed);
            tracing::warn!(
                resource = %self.gvr, version, by = ?late.by,
                "an event came later than promised"
            );
        }
    }

    /// Returns the number of the current watch while it is open.
    pub fn stream(&self) -> Option<u64> {
        let stream = self.stream.lock();
        stream.open.then_some(stream.number)
    }

    /// Notes that the main watch has ended, for whatever reason.
    pub(super) fn interrupted(&self) {
        let mut stream = self.stream.lock();
        stream.open = false;
        stream.number = stream.number.wrapping_add(1);
    }

    /// Tells whether the last proof, or the last frame of the main watch, is at
    /// most this old.
    pub(crate) fn proven_within(&self, age: Duration, now: Instant) -> bool {
        let Stream { open, heard, .. } = *self.stream.lock();
        if open && heard.is_some_and(|at| now.saturating_duration_since(at) <= age) {
            return true;
        }
        let questions = [&self.own_question, &self.fresh_question];
        let mut answered = questions.into_iter().filter_map(VersionQuestion::answered);
        answered.any(|asked| now.saturating_duration_since(asked) <= age)
    }

    /// Returns the end and the reason of a refusal.
    pub(super) fn refusal(&self) -> Option<(Instant, Unavailable)> {
        match *self.connection.lock() {
            Connection::Refused { until, why } => Some((until, why)),
            Connection::Up | Connection::Down { .. } | Connection::Stopped => None,
        }
    }

    pub(super) fn connected(&self) {
        self.stream.lock().open = true;
        self.turn(Connection::Up);
    }

    pub(super) fn disconnected(&self, now: Instant) {
        if !matches!(*self.connection.lock(), Connection::Down { .. }) {
            self.turn(Connection::Down { since: now });
        }
    }

    /// Drops the store and closes its watchers.
    pub(super) fn refuse(&self, why: Unavailable, now: Instant, lasts: Duration) {
        let until = now.checked_add(lasts).unwrap_or(now);
        self.turn(Connection::Refused { until, why });
        self.drop_store();
    }

    /// Returns the reason why a resource without a store cannot be read. Nobody
    /// waits for what did not work before.
    pub(super) fn until_filled(&self) -> Unavailable {
        match self.is_unusable() {
            true => Unavailable::Refused,
            false => Unavailable::Filling,
        }
    }

    /// Tells whether upstream's last answers could not be cached.
    pub(super) fn is_unusable(&self) -> bool {
        self.unusable.load(Ordering::Relaxed) > 0
    }

    /// Notes that upstream's answer could not be cached. Returns the time until it
    /// is asked again, which is longer each time.
    pub(super) fn found_unusable(&self) -> Duration {
        let before = self.unusable.load(Ordering::Relaxed);
        self.unusable
            .store(before.saturating_add(1), Ordering::Relaxed);
        let lasts = REFUSAL.saturating_mul(1 << before.min(10));
        lasts.min(LONGEST_REFUSAL)
    }

    /// Notes that the resource is watched as it should be.
    pub(super) fn found_usable(&self) {
        self.unusable.store(0, Ordering::Relaxed);
    }

    /// Ends the reflector, which then closes the entry. The caller has made
    /// sure that requests do not find the entry any more.
    pub(super) fn stop(&self) {
        *self.connection.lock() = Connection::Stopped;
        self.interrupted();
        self.stop.cancel();
    }

    pub(super) fn is_stopped(&self) -> bool {
        matches!(*self.connection.lock(), Connection::Stopped)
    }

    pub(super) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    /// Does the same as [`Entry::refuse`], for good.
    pub(super) fn close(&self) {
        *self.connection.lock() = Connection::Stopped;
        self.drop_store();
    }

    /// Changes the connection's state, unless the entry has ended.
    fn turn(&self, to: Connection) {
        let mut connection = self.connection.lock();
        if !matches!(*connection, Connection::Stopped) {
            *connection = to;
        }
    }

    fn drop_store(&self) {
        self.settled.send_replace(true);
        if let Some(store) = self.store.swap(None) {
            store.close();
        }
    }

    /// Judges an object that could not be used. If no JSON could be made of its
    /// protobuf, upstream is newer than the schema: all objects are read as
    /// JSON from now on. Returns true if that was decided now.
    pub(super) fn judge(&self, error: &MalformedObject) -> bool {
        let newer = matches!(error, MalformedObject::Protobuf(_));
        if newer && !self.json_only.swap(true, Ordering::Relaxed) {
            tracing::warn!(resource = %self.gvr, %error, "read as JSON from now on");
            return true;
        }
        false
    }

    pub(super) fn reads_json(&self) -> bool {
        self.json_only.load(Ordering::Relaxed)
            || !source_encoding::is_written_alike(&self.gvr, self.release())
    }

    pub(super) fn release(&self) -> Option<Release> {
        *self.release.lock()
    }

    pub(super) fn came_from(&self, release: Option<Release>) {
        *self.release.lock() = release;
    }

    pub(super) fn is_json_only(&self) -> bool {
        self.json_only.load(Ordering::Relaxed)
    }

    pub(super) fn read_as_json_only(&self, only: bool) {
        self.json_only.store(only, Ordering::Relaxed);
    }

    pub(super) fn is_savable(&self) -> bool {
        self.savable
    }

    pub(super) fn origin(&self) -> Option<Origin> {
        self.origin.lock().clone()
    }

    pub(super) fn came_with(&self, origin: Option<Origin>) {
        *self.origin.lock() = origin;
    }

    /// Notes the definition by which the store is listed from now on. Before the
    /// store changes, it is [`ListedBy::Unsure`].
    pub(super) fn listed_by(&self, definition: ListedBy) {
        *self.listed_by.lock() = definition;
    }

    /// Tells whether the resource is defined now as it was when the store was
    /// listed. Upstream is asked, unless the definition cannot change. A change
    /// that was complete before this call is noticed; the store's objects and
    /// columns must be read after it.
    pub async fn is_listed_by_current_definition(&self) -> bool {
        let before = self.listed_by.lock().clone();
        match &before {
            ListedBy::Unsure => false,
            ListedBy::None => true,
            ListedBy::Revision(revision) => {
                let now = custom_resource_definition::revision(&self.upstream(), &self.gvr).await;
                // The store may have been listed anew meanwhile.
                now.as_ref() == Some(revision) && *self.listed_by.lock() == before
            }
        }
    }

    /// Tells whether the resource has a definition, which says how its objects are shown
    /// and can change, or is not known to have none.
    pub(crate) fn has_definition(&self) -> bool {
        *self.listed_by.lock() != ListedBy::None
    }

    /// Notes a request for the resource.
    pub(super) fn touch(&self, now: Instant) {
        let millis = now.saturating_duration_since(self.began).as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        self.used.fetch_max(millis, Ordering::Relaxed);
    }

    /// Returns the time since the last request.
    pub(super) fn unused_for(&self, now: Instant) -> Duration {
        let used = Duration::from_millis(self.used.load(Ordering::Relaxed));
        now.saturating_duration_since(self.began)
            .saturating_sub(used)
    }

    /// Tells whether a request or a watch holds the store now. The reflector
    /// itself holds it only while it applies an event.
    pub(super) fn is_read(&self) -> bool {
        self.store
            .load()
            .as_ref()
            .is_some_and(|store| Arc::strong_count(store) > 1)
    }

    pub(super) fn preload(&self, wanted: bool) {
        self.preloaded.store(wanted, Ordering::Relaxed);
    }

    pub(super) fn is_preloaded(&self) -> bool {
        self.preloaded.load(Ordering::Relaxed)
    }

    pub(super) fn admit(&self) {
        self.admitted.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::Relaxed)
    }
}
