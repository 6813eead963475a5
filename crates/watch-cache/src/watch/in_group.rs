//! A watch as a member of a group. The group reads the log for it.

use std::sync::Arc;

use bytes::Bytes;

use super::session::Watch;
use super::step::WatchEnd;
use crate::store::{Cursor, Event, Store, Subscription};

impl Watch {
    /// Tells whether only an event, the next bookmark or the end of the store
    /// gives this watch something to hand out.
    pub fn waits_for_events(&self) -> bool {
        // The watch of a view also waits for another set.
        self.view.is_none()
            && self.has_begun()
            && !self.stepper.bookmarks.wait_for_versions()
            && !self.stepper.frames.is_first()
    }

    /// Returns a subscription to the same events for a group of watches, the
    /// place that this watch has read to, and the number of publications at
    /// that time.
    pub(super) fn position(&self) -> (Subscription, Cursor, Option<u64>) {
        self.stepper.log.for_group()
    }

    pub(super) fn line_id(&self) -> usize {
        self.stepper.log.line_id()
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        self.stepper.store()
    }

    /// Tells whether the watch has read all events that a reader at `cursor`
    /// has read.
    pub(super) fn has_read_to(&self, cursor: Cursor) -> bool {
        let log = &self.stepper.log;
        !log.cursor().is_before(cursor) || log.is_read_under(log.publications())
    }

    /// Frees what only a watch outside of a group needs.
    pub(super) fn rest(&mut self) {
        self.stepper.log.rest();
        self.timer = None;
    }

    /// Adds the frames of events that a group has read.
    pub(super) fn add_frames(
        &mut self,
        events: &[Arc<Event>],
        to: &mut Vec<Bytes>,
    ) -> Result<(), WatchEnd> {
        let stepper = &mut self.stepper;
        let compresses = stepper.frames.is_compressed();
        for event in events {
            // The group may have been behind this watch when it joined.
            if event.resource_version > stepper.log.read_to() {
                let store = stepper.log.store();
                to.extend(stepper.frames.logged(event, store, compresses)?);
            }
        }
        Ok(())
    }

    /// Notes that all events up to `cursor` were handed out, at this number of
    /// publications. `read_to` is the version of the last event.
    pub(super) fn pass(&mut self, cursor: Cursor, read_under: Option<u64>, read_to: u64) {
        self.stepper.log.follow(cursor, read_under, read_to);
    }
}
