//! A watch as a member of a group. The group reads the log for it.

use std::sync::Arc;

use bytes::Bytes;

use super::session::{Watch, WatchEnd};
use crate::store::{Cursor, Event, Store, Subscription};

impl Watch {
    /// Tells whether only an event, the next bookmark or the end of the store
    /// gives this watch something to hand out.
    pub fn waits_for_events(&self) -> bool {
        // The watch of a view also waits for another set.
        self.view.is_none()
            && self.has_begun()
            && !self.owed
            && !self.of_a_cache
            && !self.frames.is_first()
    }

    /// Returns a subscription to the same events for a group of watches, the
    /// place that this watch has read to, and the number of publications at
    /// that time.
    pub(super) fn position(&self) -> (Subscription, Cursor, Option<u64>) {
        (self.subscription.for_group(), self.cursor, self.read_under)
    }

    pub(super) fn line_id(&self) -> usize {
        self.subscription.line_id()
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Tells whether the watch has read all events that a reader at `cursor`
    /// has read.
    pub(super) fn has_read_to(&self, cursor: Cursor) -> bool {
        !self.cursor.is_before(cursor) || self.read_under == Some(self.subscription.publications())
    }

    /// Frees what only a watch outside of a group needs.
    pub(super) fn rest(&mut self) {
        self.subscription.rest();
        self.timer = None;
    }

    /// Adds the frames of events that a group has read.
    pub(super) fn frames_of(
        &mut self,
        events: &[Arc<Event>],
        frames: &mut Vec<Bytes>,
    ) -> Result<(), WatchEnd> {
        for event in events {
            // The group may have been behind this watch when it joined.
            if event.resource_version > self.read_to {
                frames.extend(self.frame(event, self.compresses)?);
            }
        }
        Ok(())
    }

    /// Notes that all events up to `cursor` were handed out, at this number of
    /// publications. `read_to` is the version of the last event.
    pub(super) fn pass(&mut self, cursor: Cursor, read_under: Option<u64>, read_to: u64) {
        if self.cursor.is_before(cursor) {
            self.cursor = self.cursor.advanced_to(cursor);
            self.read_under = read_under;
            self.read_to = self.read_to.max(read_to);
        }
    }
}
