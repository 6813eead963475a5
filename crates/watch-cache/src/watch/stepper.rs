//! Steps through what one client is sent. The stepper does no I/O and does not
//! wait: its caller writes the batches, and knows when to step again.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use super::batch::Batch;
use super::client_frames::ClientFrames;
use super::frame_writer::FrameWriter;
use super::log_reader::LogReader;
use super::opening::{BATCH_BYTES, Opening};
use super::options::WatchOptions;
use super::periodic_bookmarks::{Bookmarks, Known};
use super::step::{Step, WatchEnd};
use crate::store::{Cursor, Progress, Store, Visible};

/// One client's place between the state of a store and what it was sent.
pub(super) struct Stepper {
    pub(super) log: LogReader,
    pub(super) frames: ClientFrames,
    pub(super) opening: Opening,
    pub(super) bookmarks: Bookmarks,
    ends_at_resync: bool,
    began: std::time::Instant,
    /// The arrival of the oldest event in the last batch that arrived since the
    /// watch began.
    arrived: Option<std::time::Instant>,
}

impl Stepper {
    /// Begins at `cursor`. The client knows everything up to `version`.
    pub(super) fn new(
        store: Arc<Store>,
        cursor: Cursor,
        version: u64,
        options: WatchOptions,
        frames: Box<dyn FrameWriter>,
    ) -> Self {
        let WatchOptions {
            filter,
            bookmarks,
            lasts,
        } = options;
        Self {
            bookmarks: Bookmarks::new(bookmarks, lasts, version),
            log: LogReader::new(store, &filter, cursor, version),
            frames: ClientFrames::new(frames, filter, version),
            opening: Opening::default(),
            ends_at_resync: false,
            began: std::time::Instant::now(),
            arrived: None,
        }
    }

    pub(super) fn end_at_resync(&mut self) {
        self.ends_at_resync = true;
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        self.log.store()
    }

    pub(super) fn arrived(&self) -> Option<std::time::Instant> {
        self.arrived
    }

    /// Returns the versions that the client knows.
    pub(super) fn known(&self) -> Known {
        Known {
            after: self.frames.after(),
            read_to: self.log.read_to(),
        }
    }

    /// Returns the version up to which the client knows everything.
    pub(super) fn known_version(&self) -> u64 {
        let Known { after, read_to } = self.known();
        after.max(read_to).max(self.bookmarks.told())
    }

    /// Tells whether a resync ended after `known`, and the watch ends at resyncs.
    pub(super) fn is_resynced_since(&self, known: u64) -> bool {
        self.ends_at_resync && !self.opening.is_refused() && self.store().last_resync() > known
    }

    /// Returns the step of a watch that cannot begin, and the end of one whose time
    /// is up.
    pub(super) fn begin_step(&mut self, now: Instant) -> Result<Option<Step>, WatchEnd> {
        self.arrived = None;
        if let Some(step) = self.opening.refusal()? {
            return Ok(Some(step));
        }
        match now >= self.bookmarks.deadline() {
            true => Err(WatchEnd::Timeout),
            false => Ok(None),
        }
    }

    /// Returns what can be done without waiting.
    pub(super) fn step(&mut self, now: Instant) -> Result<Step, WatchEnd> {
        // The order is important: progress is read first, then publications,
        // then the log. So when the log is read to its end, the client knows
        // everything up to this version.
        let wants_progress = self.bookmarks.are_wanted();
        let progress = wants_progress.then(|| self.store().progress());
        let publications = self.log.publications();
        if !self.log.is_read_under(publications)
            && let Some(step) = self.read_on(publications, || Ok(true))?
        {
            return Ok(step);
        }
        self.bookmark_or_idle(progress, now)
    }

    /// Reads on. Returns `None` if the client has been sent all that it
    /// `may_be_sent`, which is asked again after each read of the log.
    /// `publications` is their number before the log is read.
    pub(super) fn read_on(
        &mut self,
        publications: u64,
        may_be_sent: impl Fn() -> Result<bool, WatchEnd>,
    ) -> Result<Option<Step>, WatchEnd> {
        if let Some((frames, events)) = self.ready(publications, &may_be_sent)? {
            return Ok(Some(Step::Batch(frames, events)));
        }
        let is_done = !self.opening.has_initial() && may_be_sent()?;
        Ok((!is_done).then_some(Step::Again))
    }

    /// Returns the batch that can be handed out now.
    ///
    /// A compressed batch of initial events is one gzip member. Each later
    /// event is a member of its own, so that watchers share it.
    fn ready(
        &mut self,
        publications: u64,
        may_be_sent: &impl Fn() -> Result<bool, WatchEnd>,
    ) -> Result<Option<(Bytes, usize)>, WatchEnd> {
        let begins = !self.opening.is_over();
        let mut batch = Batch::default();
        if self
            .opening
            .add_to(&mut batch, &mut self.frames, &self.log)?
        {
            let compresses = self.frames.is_compressed() && !begins;
            self.add_logged(&mut batch, compresses, publications, may_be_sent)?;
        }
        match batch.finish() {
            Some((frames, events)) if begins => Ok(Some((self.frames.compress(frames)?, events))),
            batch => Ok(batch),
        }
    }

    /// Adds the next events of the log to the batch, each as a gzip member if it
    /// `compresses`.
    fn add_logged(
        &mut self,
        batch: &mut Batch,
        compresses: bool,
        publications: u64,
        may_be_sent: &impl Fn() -> Result<bool, WatchEnd>,
    ) -> Result<(), WatchEnd> {
        while let Some(room) = batch.room(BATCH_BYTES) {
            let unpassed = self.log.peek(room)?;
            if !may_be_sent()? {
                break;
            }
            self.log.pass(&unpassed, publications);
            for event in &unpassed.events {
                let frame = self.frames.logged(event, self.log.store(), compresses)?;
                if let Some(frame) = frame {
                    batch.push(frame);
                    if event.recorded_at >= self.began {
                        self.arrived.get_or_insert(event.recorded_at);
                    }
                }
            }
            if unpassed.are_all {
                break;
            }
        }
        Ok(())
    }

    /// Returns the version that the client has been shown everything up to, if
    /// progress was read before the log. An event may be read before its progress
    /// is published.
    pub(super) fn shown_version(&self, progress: Progress) -> u64 {
        progress.resource_version.max(self.log.read_to())
    }

    /// Returns the step of a client that has been sent all events. `progress` was
    /// read before them.
    pub(super) fn bookmark_or_idle(
        &mut self,
        progress: Option<Progress>,
        now: Instant,
    ) -> Result<Step, WatchEnd> {
        if self.store().progress().closed {
            return Err(WatchEnd::Closed);
        }
        if let Some(progress) = progress {
            let version = self.shown_version(progress);
            if self.bookmarks.take_due(version, self.known(), now)
                && let Some(frame) = self.frames.bookmark(version, false)
            {
                return Ok(Step::Batch(self.frames.compress(frame)?, 1));
            }
        }
        Ok(Step::Idle)
    }

    /// Hands out the events of the objects in this set from now on.
    pub(super) fn show(&mut self, visible: Visible) {
        self.log.resubscribe(self.frames.show(visible));
    }

    /// Resolves when there is a newer version for a bookmark that waits for
    /// one.
    pub(super) fn newer(&self) -> impl Future<Output = ()> + use<> {
        let known = self.bookmarks.awaited(self.known());
        let awaited = known.map(|known| (known, self.store().subscribe()));
        async move {
            let Some((known, mut progress)) = awaited else {
                return std::future::pending().await;
            };
            let newer = progress.wait_for(|p| p.closed || p.resource_version > known);
            // It cannot fail: this watch keeps the store alive.
            let _ = newer.await;
        }
    }
}
