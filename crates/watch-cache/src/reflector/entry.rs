//! One cached resource: its store, and the state of its connection to upstream.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use apifront_source::{CurrentSource, Source};
use arc_swap::{ArcSwapOption, Guard};
use kubernetes_wire::api::{GroupVersionResource, Release};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cache::{REFUSED_RETRY_DELAY, Unavailable};
use super::custom_resource_definition::{self, ListedBy};
use super::origin::Origin;
use super::owned_store::OwnedStore;
use super::version_question::{SharedQuestion, VersionQuestion};
use super::watch_lag::{LateEvent, WatchLag};
use super::{freshness_probe, source_encoding};
use crate::store::{Demand, MalformedObject, Store, StoreWriter};

/// The longest time before an unusable resource is tried again.
const LONGEST_REFUSAL: Duration = Duration::from_secs(600);

/// The interval at which a waiting watch looks whether the form of bookmarks is
/// known.
const BOOKMARK_LOOK: Duration = Duration::from_millis(50);

pub struct Entry {
    pub gvr: GroupVersionResource,
    /// The servers that the resource is read from.
    pub(super) owner: Arc<dyn CurrentSource>,
    store: ArcSwapOption<OwnedStore>,
    connection: Mutex<Connection>,
    /// Asks upstream for its version, by a list of this resource.
    own_question: VersionQuestion,
    /// Asks for reads that another resource's version can answer.
    fresh_question: VersionQuestion,
    /// The question that all resources of the same server share.
    shared_question: Option<Arc<SharedQuestion>>,
    /// Another resource's version was found to say nothing about this one.
    asks_alone: AtomicBool,
    watch_lag: Mutex<WatchLag>,
    stream: Mutex<Stream>,
    /// Becomes true when the first list has arrived or was refused.
    settled: watch::Sender<bool>,
    began: Instant,
    /// The time of the last request, in milliseconds after `began`.
    used: AtomicU64,
    /// The configuration wants the resource filled before the first request for
    /// it.
    preloaded: AtomicBool,
    /// The resource's protobuf holds something that the schema does not know.
    json_only: AtomicBool,
    /// The release of Kubernetes that the last list came from.
    release: Mutex<Option<Release>>,
    savable: bool,
    /// The source of the store. `None` if the store may not be saved or the
    /// source is unknown.
    origin: Mutex<Option<Origin>>,
    listed_by: Mutex<ListedBy>,
    demand: Arc<Demand>,
    /// The store was filled since the last [`Self::take_refilled`].
    refilled: AtomicBool,
    /// The resource has been within the memory limit once.
    admitted: AtomicBool,
    /// The last moment at which the store was known to equal upstream.
    proven: Mutex<Option<Instant>>,
    /// The number of consecutive answers of upstream that could not be cached.
    unusable: AtomicU32,
    /// Upstream was asked for bookmarks since the last list, and sent none.
    bookmarkless: AtomicBool,
    stop: CancellationToken,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// The number of watches before this one.
    number: u64,
    open: bool,
    /// The time at which the watch last brought an event or a bookmark.
    heard: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum Connection {
    Up,
    Down {
        since: Instant,
    },
    /// The resource is not cached, for the reason `why`. It is tried again
    /// after `until`.
    Refused {
        until: Instant,
        why: Unavailable,
    },
    /// The entry has ended. Later requests get a new entry.
    Stopped,
}

impl Entry {
    pub(super) fn new(
        gvr: GroupVersionResource,
        owner: Arc<dyn CurrentSource>,
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

    pub(super) fn savable(mut self, savable: bool) -> Self {
        self.savable = savable;
        self
    }

    pub(super) fn sharing(mut self, question: Option<Arc<SharedQuestion>>) -> Self {
        self.shared_question = question;
        self
    }

    /// Takes over the demand and failures of the former entry of the same
    /// resource.
    pub(super) fn after(mut self, before: &Self) -> Self {
        self.demand = before.demand.clone();
        self.unusable = AtomicU32::new(before.unusable.load(Ordering::Relaxed));
        self.preload(before.is_preloaded());
        self
    }

    /// Makes an entry that tests fill. Its upstream answers nothing.
    #[cfg(test)]
    pub(super) fn of_nobody(gvr: GroupVersionResource, now: Instant) -> Self {
        Self::new(gvr, super::tests::nobody(), now)
    }

    /// Returns the upstream that the resource is read from.
    pub fn upstream(&self) -> Arc<dyn Source> {
        self.owner.current()
    }

    /// Asks upstream for its current version of the resource. It is no older
    /// than etcd's version at the time of this call. `None` if upstream does
    /// not answer.
    pub(crate) async fn current_version(&self) -> Option<u64> {
        let namespaced = self.store()?.resource.namespaced;
        freshness_probe::listed_version(&*self.upstream(), &self.gvr, namespaced).await
    }

    /// Waits until the form of the store's bookmarks is known, for at most
    /// `wait`. A server without initial events shows it some seconds after the
    /// list. A server that was found to send no bookmarks is not waited for.
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

    pub(super) fn found_bookmarkless(&self) {
        self.bookmarkless.store(true, Ordering::Relaxed);
    }

    /// Returns the store, once it is filled.
    pub fn store(&self) -> Option<Arc<Store>> {
        let owned = self.store.load();
        owned.as_deref().map(|owned| owned.store.clone())
    }

    /// Returns the store with its writer, once it is filled.
    pub(super) fn owned(&self) -> Guard<Option<Arc<OwnedStore>>> {
        self.store.load()
    }

    /// Puts a store in place. Closes the watchers of the former store.
    pub(super) fn fill(&self, writer: StoreWriter, store: Arc<Store>) {
        self.bookmarkless.store(false, Ordering::Relaxed);
        let filled = Arc::new(OwnedStore { store, writer });
        if let Some(before) = self.store.swap(Some(filled)) {
            before.writer.close();
        }
        self.settled.send_replace(true);
    }

    /// Returns the forms in which clients list the resource.
    pub fn demand(&self) -> &Demand {
        &self.demand
    }

    pub(super) fn refilled(&self) {
        self.refilled.store(true, Ordering::Relaxed);
    }

    pub(super) fn take_refilled(&self) -> bool {
        self.refilled.swap(false, Ordering::Relaxed)
    }

    /// Returns the store. Waits for the first list for at most `wait`.
    pub(crate) async fn store_within(&self, wait: Duration) -> Option<Arc<Store>> {
        let mut settled = self.settled.subscribe();
        let _in_time = tokio::time::timeout(wait, settled.wait_for(|settled| *settled)).await;
        self.store()
    }

    /// Returns the time since the connection to upstream was lost. It is zero
    /// while the main watch is open.
    pub fn disconnected_for(&self, now: Instant) -> Duration {
        match *self.connection.lock() {
            Connection::Up => Duration::ZERO,
            Connection::Down { since } => now.saturating_duration_since(since),
            Connection::Refused { .. } | Connection::Stopped => Duration::MAX,
        }
    }

    /// Returns a version that upstream had after this call began, from an
    /// answer about this resource. `None` if upstream does not answer.
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

    /// Does the same as [`Entry::upstream_version`], but the answer may be
    /// about another resource of the same server.
    pub async fn shared_version(&self) -> Option<u64> {
        let ask = async || match self.version_of_others().await {
            Some(version) => self.noted(Some(version)),
            None => self.own_version().await,
        };
        self.fresh_question.ask(ask).await.version
    }

    /// Passes upstream's version on to the measurement of late events.
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
        // A question about a cluster-scoped resource costs more, the more
        // objects there are. For a custom resource, the author of the
        // definition decides the cost.
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
            freshness_probe::listed_version(&*upstream, &about, true).await
        };
        let version = shared.ask(ask).await?;
        if version < reached {
            // This resource is not in the same etcd as the other one.
            self.asks_alone.store(true, Ordering::Relaxed);
            return None;
        }
        Some(version)
    }

    /// Returns the time to wait for late events after upstream's version is
    /// known.
    pub fn settle(&self, now: Instant) -> Duration {
        self.watch_lag.lock().settle(now)
    }

    /// Notes that a caller was told that all events up to this version have
    /// come.
    pub fn promise(&self, version: u64) {
        self.watch_lag.lock().promise(version);
    }

    /// Tells whether promises (see [`Entry::promise`]) were broken, and are not
    /// given for a while.
    pub fn is_suspended(&self, now: Instant) -> bool {
        self.watch_lag.lock().is_suspended(now)
    }

    /// Returns the late events since the last call of this function, for
    /// metrics.
    pub fn take_late(&self) -> Vec<LateEvent> {
        self.watch_lag.lock().take()
    }

    /// Returns the last moment at which the store was known to equal upstream:
    /// a list began, the main watch brought an event or a bookmark, or a probe
    /// was sent whose version the store has reached. `None` if the store does
    /// not come from the current upstream.
    pub fn proven_at(&self) -> Option<Instant> {
        *self.proven.lock()
    }

    pub(crate) fn proven(&self, at: Instant) {
        let mut proven = self.proven.lock();
        *proven = proven.max(Some(at));
    }

    /// Forgets the last proof, because upstream was replaced and may be another
    /// cluster.
    pub(super) fn unproven(&self) {
        *self.proven.lock() = None;
    }

    /// Notes that the main watch has brought everything up to this version,
    /// with an event or a bookmark.
    pub(super) fn heard(&self, version: u64, is_event: bool, now: Instant) {
        self.proven(now);
        self.stream.lock().heard = Some(now);
        let mut watch_lag = self.watch_lag.lock();
        if !is_event {
            watch_lag.reached(version);
        } else if let Some(late) = watch_lag.event(version, now)
            && late.broken
        {
            // Answers about this resource itself are a stronger proof.
            self.asks_alone.store(true, Ordering::Relaxed);
            tracing::warn!(
                resource = %self.gvr, version, by = ?late.by,
                "an event came later than promised"
            );
        }
    }

    /// Returns the number of the main watch, if it is open.
    pub fn stream(&self) -> Option<u64> {
        let stream = self.stream.lock();
        stream.open.then_some(stream.number)
    }

    /// Notes that the main watch has ended.
    pub(super) fn interrupted(&self) {
        let mut stream = self.stream.lock();
        stream.open = false;
        stream.number = stream.number.wrapping_add(1);
    }

    /// Tells whether the store was proven at most `age` ago, by a version that
    /// upstream told or by a frame of the main watch.
    pub(crate) fn proven_within(&self, age: Duration, now: Instant) -> bool {
        let Stream { open, heard, .. } = *self.stream.lock();
        if open && heard.is_some_and(|at| now.saturating_duration_since(at) <= age) {
            return true;
        }
        let questions = [&self.own_question, &self.fresh_question];
        let mut answered = questions.into_iter().filter_map(VersionQuestion::answered);
        answered.any(|asked| now.saturating_duration_since(asked) <= age)
    }

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

    pub(super) fn refuse(&self, why: Unavailable, now: Instant, lasts: Duration) {
        let until = now.checked_add(lasts).unwrap_or(now);
        self.turn(Connection::Refused { until, why });
        self.drop_store();
    }

    /// Returns why a resource without a store cannot be read. After a failed
    /// attempt nobody waits for the next.
    pub(super) fn until_filled(&self) -> Unavailable {
        match self.is_unusable() {
            true => Unavailable::Refused,
            false => Unavailable::Filling,
        }
    }

    pub(super) fn is_unusable(&self) -> bool {
        self.unusable.load(Ordering::Relaxed) > 0
    }

    /// Notes that upstream's answer could not be cached. Returns the time until
    /// the next attempt, which grows with each failure.
    pub(super) fn found_unusable(&self) -> Duration {
        let before = self.unusable.load(Ordering::Relaxed);
        self.unusable
            .store(before.saturating_add(1), Ordering::Relaxed);
        let lasts = REFUSED_RETRY_DELAY.saturating_mul(1 << before.min(10));
        lasts.min(LONGEST_REFUSAL)
    }

    pub(super) fn found_usable(&self) {
        self.unusable.store(0, Ordering::Relaxed);
    }

    /// Ends the reflector, which then closes the entry. Requests must no longer
    /// find the entry when this is called.
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

    /// Drops the store and closes its watchers, for good.
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
        if let Some(before) = self.store.swap(None) {
            before.writer.close();
        }
    }

    /// Judges an object that could not be used. If its protobuf could not be
    /// turned into JSON, upstream is newer than the schema, and all objects are
    /// read as JSON from now on. Returns true if this call decided that.
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

    /// Notes the definition that the store's list was made with. It must be
    /// [`ListedBy::Unsure`] while the store changes.
    pub(super) fn listed_by(&self, definition: ListedBy) {
        *self.listed_by.lock() = definition;
    }

    /// Tells whether the resource's definition is still the one that the store
    /// was listed with. Asks upstream, unless the definition cannot change.
    /// Notices every change that was complete before this call. The caller must
    /// read the store's objects and columns after it.
    pub async fn is_listed_by_current_definition(&self) -> bool {
        let before = self.listed_by.lock().clone();
        match &before {
            ListedBy::Unsure => false,
            ListedBy::None => true,
            ListedBy::Revision(revision) => {
                let now = custom_resource_definition::revision(&*self.upstream(), &self.gvr).await;
                // The store may have been filled by another list meanwhile.
                now.as_ref() == Some(revision) && *self.listed_by.lock() == before
            }
        }
    }

    /// Tells whether the resource has a definition that can change, or may have
    /// one. The definition says how objects are shown.
    pub(crate) fn has_definition(&self) -> bool {
        *self.listed_by.lock() != ListedBy::None
    }

    pub(super) fn touch(&self, now: Instant) {
        let millis = now.saturating_duration_since(self.began).as_millis();
        let millis = u64::try_from(millis).unwrap_or(u64::MAX);
        self.used.fetch_max(millis, Ordering::Relaxed);
    }

    pub(super) fn unused_for(&self, now: Instant) -> Duration {
        let used = Duration::from_millis(self.used.load(Ordering::Relaxed));
        now.saturating_duration_since(self.began)
            .saturating_sub(used)
    }

    /// Tells whether a request or a watch holds the store now. Its writer holds it
    /// only while it applies an event.
    pub(super) fn is_read(&self) -> bool {
        self.store
            .load()
            .as_deref()
            .is_some_and(OwnedStore::is_read)
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
