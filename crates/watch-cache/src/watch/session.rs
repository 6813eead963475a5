//! One watch, as a sequence of byte batches. The watch does no I/O: its caller
//! writes the batches.
//!
//! ```text
//! initial events ─▶ end bookmark ─▶ log events, a bookmark each minute ─▶ end
//! events before the log ──────────▶ log events, a bookmark each minute ─▶ end
//! an event that says why there are no others ─────────────────────────────▶ end
//! ```

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kubernetes_wire::api::Status;
use kubernetes_wire::representation::EventType;
use kubernetes_wire::representation::error_status::watch_error;
use tokio::time::{Instant, Sleep};

use super::batch::{Batch, compressed};
use super::bookmark_timer::BookmarkTimer;
use super::transition::event_type;
use super::view::ViewWatch;
use super::{FrameWriter, transition};
use crate::store::{
    Cursor, EarlierEvents, Event, Evicted, Filter, Snapshot, Store, StoredObject, Subscription,
    Topic,
};

/// The approximate size of a batch of events. It is small enough that other
/// tasks get their turn, and large enough for efficient writes.
const BATCH_BYTES: usize = 64 << 10;

/// Initial events come in larger batches.
pub(super) const INITIAL_BATCH_BYTES: usize = 128 << 10;

/// The work between two turns of other tasks: the number of objects, and the
/// bytes that are read of them for selectors and to write them. Each takes a
/// few milliseconds at most.
const LOOKED_AT_OBJECTS: usize = 10_000;
const LOOKED_AT_BYTES: usize = 1 << 20;

/// Counts the work since other tasks had their turn.
#[derive(Default)]
pub(super) struct LookedAt {
    objects: usize,
    bytes: usize,
}

impl LookedAt {
    pub(super) fn is_enough(&self) -> bool {
        self.objects >= LOOKED_AT_OBJECTS || self.bytes >= LOOKED_AT_BYTES
    }

    pub(super) fn test(&mut self, object: &StoredObject) {
        self.objects = self.objects.saturating_add(1);
        self.bytes = self.bytes.saturating_add(object.selected_bytes());
    }

    /// Adds an object that is read `passes` times to write it.
    pub(super) fn write(&mut self, object: &StoredObject, passes: usize) {
        let bytes = object.size().saturating_mul(passes);
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

#[derive(Clone, Debug)]
pub struct WatchOptions {
    pub filter: Filter,
    pub bookmarks: bool,
    /// The time after which the watch ends normally.
    pub lasts: Duration,
}

/// Why there are no more events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// The watch's time is up.
    Timeout,
    /// The watcher was too slow. The events that it needed are no longer in the
    /// history.
    FellBehind,
    /// The resource, or the view of it, is not served any more.
    Closed,
    /// An object cannot be written in the requested representation.
    NotEncodable,
    /// The watch could not begin at its version, and has told the client.
    Expired,
    /// The watcher is a cache, and a part of the history is unknown here.
    Resynced,
}

impl WatchEnd {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::FellBehind => "fell_behind",
            Self::Closed => "closed",
            Self::NotEncodable => "not_encodable",
            Self::Expired => "expired",
            Self::Resynced => "resynced",
        }
    }
}

/// The only event of a watch that cannot begin.
enum Refusal {
    Untold(Bytes),
    Told,
}

/// The next step of a watch.
#[derive(Debug)]
pub enum Step {
    /// Hands out whole frames, and the number of events in them.
    Batch(Bytes, usize),
    /// Lets other tasks have their turn first.
    Again,
    /// Waits until [`Watch::changed`].
    Idle,
}

pub struct Watch {
    pub(super) store: Arc<Store>,
    pub(super) frames: Box<dyn FrameWriter>,
    pub(super) options: WatchOptions,
    refusal: Option<Refusal>,
    earlier: Option<EarlierEvents>,
    pub(super) initial: Option<Initial>,
    /// The version of the bookmark that will mark the end of the initial
    /// events.
    pub(super) owed_end: Option<u64>,
    /// Set if the watch shows only a part of the objects, which changes.
    pub(super) view: Option<Box<ViewWatch>>,
    /// Batches are gzip members.
    pub(super) compresses: bool,
    /// The watcher is a cache with watchers of its own.
    pub(super) of_a_cache: bool,
    /// A bookmark is due, but there was no newer version to tell.
    pub(super) owed: bool,
    pub(super) cursor: Cursor,
    /// The version that the client knows when the watch starts. Only later
    /// events and bookmarks are sent.
    after: u64,
    /// The version of the last event read from the log.
    pub(super) read_to: u64,
    /// The version of the last bookmark.
    told: u64,
    began: std::time::Instant,
    /// The arrival of the oldest event in the last batch that arrived since the
    /// watch began.
    arrived: Option<std::time::Instant>,
    pub(super) subscription: Subscription,
    /// The number of publications when the log was read to its end.
    pub(super) read_under: Option<u64>,
    bookmarks: BookmarkTimer,
    /// The timer is reused for each wait, because its deadline seldom changes.
    pub(super) timer: Option<Pin<Box<Sleep>>>,
}

/// The objects of a snapshot, from the key `start`.
pub(super) struct Initial {
    pub(super) snapshot: Arc<Snapshot>,
    start: String,
}

impl Watch {
    /// Starts a watch of the events after `version`.
    pub fn from_version(
        store: Arc<Store>,
        version: u64,
        options: WatchOptions,
        frames: Box<dyn FrameWriter>,
    ) -> Result<Self, Evicted> {
        Self::from_version_or(store, version, options, frames, |_| None)
    }

    /// Does the same as [`from_version`](Self::from_version). If the events
    /// after `version` are not known, the client is sent the Status that
    /// `refusal` returns.
    pub fn from_version_or(
        store: Arc<Store>,
        version: u64,
        options: WatchOptions,
        frames: Box<dyn FrameWriter>,
        refusal: impl FnOnce(Evicted) -> Option<Status>,
    ) -> Result<Self, Evicted> {
        match store.begin(version) {
            Ok(cursor) => Ok(Self::new(store, cursor, version, options, frames)),
            Err(evicted) => match refusal(evicted) {
                Some(status) => Ok(Self::refused(store, version, options, frames, &status)),
                None => Err(evicted),
            },
        }
    }

    /// Makes a watch with one event, which says why the watch cannot begin.
    /// kube-apiserver refuses a version that it no longer knows in this way.
    /// Some clients understand no other way: kube-rs repeats endlessly after a
    /// 410 as the response status.
    pub fn refused(
        store: Arc<Store>,
        version: u64,
        options: WatchOptions,
        frames: Box<dyn FrameWriter>,
        status: &Status,
    ) -> Self {
        let refusal = Refusal::Untold(watch_error(status, frames.encoding()));
        let nowhere = store.snapshot().cursor;
        let mut watch = Self::new(store, nowhere, version, options, frames);
        watch.refusal = Some(refusal);
        watch
    }

    /// Starts a watch that sends the objects of `snapshot` as ADDED events,
    /// then later events.
    pub fn with_initial_events(
        store: Arc<Store>,
        snapshot: Arc<Snapshot>,
        options: WatchOptions,
        frames: Box<dyn FrameWriter>,
    ) -> Self {
        let version = snapshot.resource_version;
        let owed_end = options.bookmarks.then_some(version);
        let mut watch = Self::new(store, snapshot.cursor, version, options, frames);
        watch.initial = Some(Initial {
            snapshot,
            start: String::new(),
        });
        watch.owed_end = owed_end;
        watch
    }

    /// Starts a watch that sends events from before the log, then those of the
    /// log.
    pub fn after_earlier(
        store: Arc<Store>,
        earlier: EarlierEvents,
        options: WatchOptions,
        frames: Box<dyn FrameWriter>,
    ) -> Result<Self, Evicted> {
        let mut watch = Self::from_version(store, earlier.version, options, frames)?;
        watch.earlier = Some(earlier);
        Ok(watch)
    }

    /// Omits the bookmark that marks the end of the initial events.
    pub fn unmarked(mut self) -> Self {
        self.owed_end = None;
        self
    }

    /// Compresses the batches. Each consists of whole gzip members.
    pub fn compressed(mut self) -> Self {
        self.compresses = true;
        self
    }

    /// Serves a watcher that is itself a cache.
    ///
    /// If the watch has bookmarks, it tells each version that has no event at
    /// once, and not each minute. Otherwise each cache on the way would delay
    /// the version by up to a minute for its watchers.
    ///
    /// The watch ends at a resync. The cache would take the events of the
    /// resync for the history, and send them to watchers that begin before it.
    pub fn of_a_cache(mut self) -> Self {
        self.of_a_cache = true;
        self
    }

    pub fn is_compressed(&self) -> bool {
        self.compresses
    }

    fn new(
        store: Arc<Store>,
        cursor: Cursor,
        version: u64,
        options: WatchOptions,
        frames: Box<dyn FrameWriter>,
    ) -> Self {
        Self {
            bookmarks: BookmarkTimer::new(Instant::now(), options.lasts),
            subscription: store.subscribe_to(Topic::of(&options.filter)),
            store,
            frames,
            options,
            refusal: None,
            earlier: None,
            initial: None,
            owed_end: None,
            view: None,
            compresses: false,
            of_a_cache: false,
            owed: false,
            cursor,
            after: version,
            read_to: version,
            told: version,
            began: std::time::Instant::now(),
            arrived: None,
            read_under: None,
            timer: None,
        }
    }

    /// Returns when the oldest event of the last batch arrived in the store.
    /// Events from before the watch began do not count. `None` if there are no
    /// others.
    pub fn arrived(&self) -> Option<std::time::Instant> {
        self.arrived
    }

    /// Returns the version that the client knows when the watch starts, or
    /// after its initial events.
    pub fn version(&self) -> u64 {
        self.after
    }

    /// Tells whether all initial events were handed out.
    pub fn has_begun(&self) -> bool {
        self.initial.is_none()
            && self.earlier.is_none()
            && self.owed_end.is_none()
            && self.view.as_ref().is_none_or(|view| view.has_begun())
    }

    #[cfg(test)]
    pub(super) fn bookmark_each(&mut self, period: Duration) {
        self.bookmarks.set_period(period, Instant::now());
    }

    pub fn content_type(&self) -> &'static str {
        self.frames.content_type()
    }

    /// Waits for the next batch of whole frames, and returns it with its number
    /// of events. Cancel-safe: a dropped call loses no batch.
    pub async fn next(&mut self) -> Result<(Bytes, usize), WatchEnd> {
        loop {
            match self.step()? {
                Step::Batch(frames, events) => return Ok((frames, events)),
                Step::Again => tokio::task::yield_now().await,
                Step::Idle => self.changed().await,
            }
        }
    }

    /// Returns what can be done without waiting.
    pub fn step(&mut self) -> Result<Step, WatchEnd> {
        let known = self.after.max(self.read_to).max(self.told);
        let step = self.step_over_resyncs();
        // A resync may have come while the log was read.
        let begun = self.refusal.is_none();
        if self.of_a_cache && begun && self.store.last_resync() > known {
            return Err(WatchEnd::Resynced);
        }
        step
    }

    /// Does the same as [`step`](Self::step), but a cache is sent the events of
    /// a resync, too.
    fn step_over_resyncs(&mut self) -> Result<Step, WatchEnd> {
        self.arrived = None;
        if let Some(refusal) = &mut self.refusal {
            return match std::mem::replace(refusal, Refusal::Told) {
                Refusal::Untold(frame) => Ok(Step::Batch(frame, 1)),
                Refusal::Told => Err(WatchEnd::Expired),
            };
        }
        let now = Instant::now();
        if now >= self.bookmarks.deadline() {
            return Err(WatchEnd::Timeout);
        }
        if self.is_ahead() {
            self.catch_up()?;
            if self.is_ahead() {
                return Ok(Step::Idle);
            }
        }
        // The order is important: progress is read first, then publications,
        // then the log. So when the log is read to its end, the client knows
        // everything up to this version.
        let known = self.has_bookmark_times().then(|| self.store.progress());
        if let Some(step) = self.turn()? {
            return Ok(step);
        }
        let publications = self.subscription.publications();
        // A waiting view also reads events that it does not show, because a
        // change of its set is told at its place in the log.
        if self.read_under != Some(publications) || self.view.is_some() {
            if let Some((frames, events)) = self.ready(publications)? {
                return Ok(Step::Batch(frames, events));
            }
            if self.initial.is_some() || !self.is_settled()? {
                return Ok(Step::Again);
            }
        }
        if self.store.progress().closed {
            return Err(WatchEnd::Closed);
        }
        // An event may be read before its progress is published.
        if let Some(known) = known {
            let version = known.resource_version.max(self.read_to);
            if let Some(view) = &mut self.view {
                view.tell(version);
            }
            if let Some(frame) = self.bookmark(version, now) {
                return self.compress(frame).map(|frame| Step::Batch(frame, 1));
            }
        }
        Ok(Step::Idle)
    }

    /// Tells whether the watch wakes when a bookmark is due.
    fn has_bookmark_times(&self) -> bool {
        self.options.bookmarks || self.view.is_some()
    }

    /// Tells whether the client has been shown all that it may see now.
    fn is_settled(&self) -> Result<bool, WatchEnd> {
        self.view
            .as_ref()
            .map_or(Ok(true), |view| view.is_settled())
    }

    /// Waits until there may be something to hand out.
    pub async fn changed(&mut self) {
        if self.is_ahead() {
            return self.reached().await;
        }
        // Any publication after this point ends the wait.
        let published = self.subscription.published();
        if self.read_under != Some(self.subscription.publications()) {
            return;
        }
        let newer = self.newer();
        let turned = self.view.as_ref().map(|view| view.changed());
        let turned = async move {
            match turned {
                Some(turned) => turned.await,
                None => std::future::pending().await,
            }
        };
        let timer = self.timer();
        tokio::select! {
            biased;
            () = published => {}
            () = newer => {}
            () = turned => {}
            () = timer => {}
        }
    }

    /// Resolves when there is a newer version for a bookmark that waits for
    /// one.
    fn newer(&self) -> impl Future<Output = ()> + use<> {
        let known = match self.options.bookmarks {
            true if self.of_a_cache => Some(self.told.max(self.read_to)),
            true if self.owed => Some(self.after),
            _ => None,
        };
        let awaited = known.map(|known| (known, self.store.subscribe()));
        async move {
            let Some((known, mut progress)) = awaited else {
                return std::future::pending().await;
            };
            let newer = progress.wait_for(|p| p.closed || p.resource_version > known);
            // It cannot fail: this watch keeps the store alive.
            let _ = newer.await;
        }
    }

    pub(super) fn ends_at(&self) -> Instant {
        self.bookmarks.deadline()
    }

    /// Returns when the next bookmark is due or the watch ends, whichever comes
    /// first.
    pub(super) fn wake_at(&self) -> Instant {
        if self.has_bookmark_times() {
            self.bookmarks.next_wake()
        } else {
            self.bookmarks.deadline()
        }
    }

    /// Returns the timer, set to [`wake_at`](Self::wake_at).
    fn timer(&mut self) -> Pin<&mut Sleep> {
        let wake_at = self.wake_at();
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(wake_at)))
            .as_mut();
        if timer.deadline() == wake_at {
            return timer;
        }
        let mut timer = timer;
        timer.as_mut().reset(wake_at);
        timer
    }

    /// Returns the batch that can be handed out now.
    ///
    /// A compressed batch of initial events is one gzip member. Each later
    /// event is a member of its own, so that watchers share it.
    fn ready(&mut self, publications: u64) -> Result<Option<(Bytes, usize)>, WatchEnd> {
        let begins = !self.has_begun();
        let batch = self.plain(begins, publications)?.finish();
        match batch {
            Some((frames, events)) if begins => Ok(Some((self.compress(frames)?, events))),
            batch => Ok(batch),
        }
    }

    pub(super) fn compress(&self, frames: Bytes) -> Result<Bytes, WatchEnd> {
        if !self.compresses {
            return Ok(frames);
        }
        compressed(&frames).ok_or(WatchEnd::NotEncodable)
    }

    /// Returns the next batch. It has initial events if the watch `begins`.
    /// Other events are compressed already. `publications` is their number
    /// before the log is read.
    fn plain(&mut self, begins: bool, publications: u64) -> Result<Batch, WatchEnd> {
        let mut batch = Batch::default();
        if let Some(mut earlier) = self.earlier.take() {
            while let Some((change, object)) = earlier.events.pop_front() {
                let frame = self.frames.event(event_type(change), &object);
                batch.push(frame.ok_or(WatchEnd::NotEncodable)?);
                if batch.room(BATCH_BYTES).is_none() {
                    self.earlier = Some(earlier);
                    return Ok(batch);
                }
            }
        }
        if let Some(mut initial) = self.initial.take()
            && let Some(start) = self.begin(&initial, &mut batch)?
        {
            initial.start = start;
            self.initial = Some(initial);
            return Ok(batch);
        }
        if let Some(version) = self.owed_end.take() {
            let frame = self.frames.bookmark(version, true);
            batch.push(frame.ok_or(WatchEnd::NotEncodable)?);
        }
        while let Some(room) = batch.room(BATCH_BYTES) {
            let mut cursor = self.cursor;
            let (events, are_all) = self
                .store
                .read_topic(&self.subscription, &mut cursor, room)
                .map_err(|Evicted { .. }| WatchEnd::FellBehind)?;
            if !self.is_settled()? {
                // These events may have been published after a newer set.
                break;
            }
            self.cursor = cursor;
            for event in events {
                self.read_to = event.resource_version;
                if let Some(frame) = self.frame(&event, self.compresses && !begins)? {
                    batch.push(frame);
                    if event.recorded_at >= self.began {
                        self.arrived.get_or_insert(event.recorded_at);
                    }
                }
            }
            if are_all {
                self.read_under = Some(publications);
                break;
            }
        }
        Ok(batch)
    }

    /// Adds objects to an empty batch. If there are more objects, returns the
    /// key to continue at.
    fn begin(&mut self, from: &Initial, batch: &mut Batch) -> Result<Option<String>, WatchEnd> {
        // If a watcher takes longer than history lasts, it would keep objects
        // in memory that nobody else needs. The events after them would be gone
        // by then.
        if !self.store.holds(&self.cursor) {
            return Err(WatchEnd::FellBehind);
        }
        let filter = &self.options.filter;
        let objects = from.snapshot.iter_from(&filter.scope, &from.start);
        let mut looked_at = LookedAt::default();
        for object in objects {
            if looked_at.is_enough() || batch.room(INITIAL_BATCH_BYTES).is_none() {
                return Ok(Some(object.key.as_str().to_owned()));
            }
            looked_at.test(object);
            if !filter.matches(object) {
                continue;
            }
            looked_at.write(object, self.frames.passes());
            if !self.frames.append(EventType::Added, object, batch.add()) {
                return Err(WatchEnd::NotEncodable);
            }
        }
        Ok(None)
    }

    /// Returns the frame of an event. `None` if the watch does not show it.
    pub(super) fn frame(
        &mut self,
        event: &Event,
        compresses: bool,
    ) -> Result<Option<Bytes>, WatchEnd> {
        if event.resource_version <= self.after {
            return Ok(None);
        }
        let Some(seen) = transition(event, &self.options.filter) else {
            return Ok(None);
        };
        let envelope = &self.store.resource.envelope;
        let frame = self.frames.logged(event, seen, envelope, compresses);
        frame.map(Some).ok_or(WatchEnd::NotEncodable)
    }

    /// Returns the bookmark that is to be sent now.
    ///
    /// If the client knew this version when the watch began, a bookmark that is
    /// due tells nothing. It is then owed until there is a later version:
    /// upstream's own bookmarks come each minute, too, and may come just after
    /// this one was due.
    fn bookmark(&mut self, version: u64, now: Instant) -> Option<Bytes> {
        self.owed |= self.bookmarks.take_due(now);
        let is_news = self.of_a_cache && version > self.told.max(self.read_to);
        if version <= self.after || !(self.owed || is_news) {
            return None;
        }
        self.owed = false;
        if !self.options.bookmarks {
            return None;
        }
        self.told = version;
        self.frames.bookmark(version, false)
    }
}
