//! One watch, as a sequence of byte batches. The watch does no I/O: its caller
//! writes the batches.
//!
//! ```text
//! opening ─▶ log events, a bookmark each minute ─▶ end
//! ```

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use kubernetes_wire::api::Status;
use kubernetes_wire::representation::error_status::watch_error;
use tokio::time::{Instant, Sleep};

use super::opening::Opening;
use super::options::WatchOptions;
use super::step::{Step, WatchEnd};
use super::stepper::Stepper;
use super::view::ViewWatch;
use super::{FrameWriter, NotReached, Visibility};
use crate::store::{Cursor, EarlierEvents, Evicted, Snapshot, Store};

pub struct Watch {
    pub(super) stepper: Stepper,
    /// Set if the watch shows only a part of the objects, which changes.
    pub(super) view: Option<Box<ViewWatch>>,
    /// The timer is reused for each wait, because its deadline seldom changes.
    pub(super) timer: Option<Pin<Box<Sleep>>>,
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
        let opening = Opening::refused(watch_error(status, frames.encoding()));
        let nowhere = store.snapshot().cursor;
        let watch = Self::new(store, nowhere, version, options, frames);
        watch.opened_by(opening)
    }

    /// Starts a watch that sends the objects of `snapshot` as ADDED events,
    /// then later events.
    pub fn with_initial_events(
        store: Arc<Store>,
        snapshot: Arc<Snapshot>,
        options: WatchOptions,
        frames: Box<dyn FrameWriter>,
    ) -> Self {
        let (cursor, version) = (snapshot.cursor, snapshot.resource_version);
        let opening = Opening::initial(snapshot, options.bookmarks);
        let watch = Self::new(store, cursor, version, options, frames);
        watch.opened_by(opening)
    }

    /// Starts a watch that sends events from before the log, then those of the
    /// log.
    pub fn after_earlier(
        store: Arc<Store>,
        earlier: EarlierEvents,
        options: WatchOptions,
        frames: Box<dyn FrameWriter>,
    ) -> Result<Self, Evicted> {
        let watch = Self::from_version(store, earlier.version(), options, frames)?;
        Ok(watch.opened_by(Opening::earlier(earlier)))
    }

    /// Omits the bookmark that marks the end of the initial events.
    pub fn unmarked(mut self) -> Self {
        self.stepper.opening.unmark();
        self
    }

    /// Compresses the batches. Each consists of whole gzip members.
    pub fn compressed(mut self) -> Self {
        self.stepper.frames.set_compressed();
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
        self.stepper.bookmarks.tell_at_once();
        self.stepper.end_at_resync();
        self
    }

    /// Shows only a changing part of the objects. A watch from a version begins
    /// with the set that was visible at that version. A watch with initial
    /// events sends those that are visible now. Fails if the store has not
    /// reached the version yet, because newly visible objects are shown in the
    /// store's state.
    pub fn of_view(self, visibility: Visibility) -> Result<Self, NotReached> {
        if self.version() > self.stepper.store().highest_version() {
            return Err(NotReached);
        }
        Ok(self.of_view_when_reached(visibility))
    }

    /// Does the same as [`of_view`](Self::of_view), but hands out nothing until
    /// the store has reached the version.
    #[must_use]
    pub fn of_view_when_reached(mut self, visibility: Visibility) -> Self {
        let view = ViewWatch::begin(&mut self.stepper, visibility);
        self.view = Some(Box::new(view));
        self
    }

    fn new(
        store: Arc<Store>,
        cursor: Cursor,
        version: u64,
        options: WatchOptions,
        frames: Box<dyn FrameWriter>,
    ) -> Self {
        Self {
            stepper: Stepper::new(store, cursor, version, options, frames),
            view: None,
            timer: None,
        }
    }

    fn opened_by(mut self, opening: Opening) -> Self {
        self.stepper.opening = opening;
        self
    }

    pub fn is_compressed(&self) -> bool {
        self.stepper.frames.is_compressed()
    }

    /// Returns when the oldest event of the last batch arrived in the store.
    /// Events from before the watch began do not count. `None` if there are no
    /// others.
    pub fn arrived(&self) -> Option<std::time::Instant> {
        self.stepper.arrived()
    }

    /// Returns the version that the client knows when the watch starts, or
    /// after its initial events.
    pub fn version(&self) -> u64 {
        self.stepper.frames.after()
    }

    /// Tells whether all initial events were handed out.
    pub fn has_begun(&self) -> bool {
        self.stepper.opening.is_over() && self.view.as_ref().is_none_or(|view| view.has_begun())
    }

    pub fn content_type(&self) -> &'static str {
        self.stepper.frames.content_type()
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
        let known = self.stepper.known_version();
        let step = self.step_over_resyncs();
        // A resync may have come while the log was read.
        if self.stepper.is_resynced_since(known) {
            return Err(WatchEnd::Resynced);
        }
        step
    }

    /// Does the same as [`step`](Self::step), but a cache is sent the events of
    /// a resync, too.
    fn step_over_resyncs(&mut self) -> Result<Step, WatchEnd> {
        let now = Instant::now();
        if let Some(step) = self.stepper.begin_step(now)? {
            return Ok(step);
        }
        match &mut self.view {
            Some(view) => view.step(&mut self.stepper, now),
            None => self.stepper.step(now),
        }
    }

    /// Waits until there may be something to hand out.
    pub async fn changed(&mut self) {
        let Self { stepper, view, .. } = self;
        if let Some(view) = view
            && view.is_ahead()
        {
            return view.reached(stepper).await;
        }
        // Any publication after this point ends the wait.
        let published = stepper.log.published();
        if !stepper.log.is_read_under(stepper.log.publications()) {
            return;
        }
        let newer = stepper.newer();
        let turned = view.as_ref().map(|view| view.changed());
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

    /// Returns when the next bookmark is due or the watch ends, whichever comes
    /// first.
    pub(super) fn wake_at(&self) -> Instant {
        let bookmarks = &self.stepper.bookmarks;
        // A view also notes the versions that it does not tell.
        match bookmarks.are_wanted() || self.view.is_some() {
            true => bookmarks.next_wake(),
            false => bookmarks.deadline(),
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

    #[cfg(test)]
    pub(super) fn bookmark_each(&mut self, period: std::time::Duration) {
        self.stepper.bookmarks.set_period(period);
    }
}
