//! A watch's place in the log.

use std::sync::Arc;

use tokio::sync::futures::OwnedNotified;

use crate::store::{Cursor, Event, Evicted, Filter, Store, Subscription, Topic};

/// Reads the events of one topic, from a cursor on.
pub(super) struct LogReader {
    store: Arc<Store>,
    subscription: Subscription,
    cursor: Cursor,
    /// The version of the last event read from the log.
    read_to: u64,
    /// The number of publications when the log was read to its end.
    read_under: Option<u64>,
}

/// Events that were read and that the reader has not passed yet.
pub(super) struct Unpassed {
    pub(super) events: Vec<Arc<Event>>,
    /// There were no others when they were read.
    pub(super) are_all: bool,
    /// The place behind them.
    cursor: Cursor,
}

impl LogReader {
    /// Reads the events that may concern the filter's objects, from `cursor` on. The
    /// client knows everything up to `version`.
    pub(super) fn new(store: Arc<Store>, filter: &Filter, cursor: Cursor, version: u64) -> Self {
        Self {
            subscription: store.subscribe_to(Topic::from_filter(filter)),
            store,
            cursor,
            read_to: version,
            read_under: None,
        }
    }

    pub(super) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    pub(super) fn cursor(&self) -> Cursor {
        self.cursor
    }

    pub(super) fn read_to(&self) -> u64 {
        self.read_to
    }

    /// Tells whether the log still has all events from the reader's place on.
    pub(super) fn has_place(&self) -> bool {
        self.store.holds(&self.cursor)
    }

    /// Returns a number that changes with each publication.
    pub(super) fn publications(&self) -> u64 {
        self.subscription.publications()
    }

    /// Tells whether the log was read to its end at this number of publications.
    pub(super) fn is_read_under(&self, publications: u64) -> bool {
        self.read_under == Some(publications)
    }

    /// Resolves at any publication after this call.
    pub(super) fn published(&mut self) -> OwnedNotified {
        self.subscription.published()
    }

    /// Returns the next events, which have about `bytes` together.
    pub(super) fn peek(&self, bytes: usize) -> Result<Unpassed, Evicted> {
        let (store, mut cursor) = (&self.store, self.cursor);
        let (events, are_all) = store.read_topic(&self.subscription, &mut cursor, bytes)?;
        Ok(Unpassed {
            events,
            are_all,
            cursor,
        })
    }

    /// Goes to the place behind the events. `publications` is their number before
    /// the events were read.
    pub(super) fn pass(&mut self, unpassed: &Unpassed, publications: u64) {
        self.cursor = unpassed.cursor;
        if let Some(last) = unpassed.events.last() {
            self.read_to = last.resource_version;
        }
        if unpassed.are_all {
            self.read_under = Some(publications);
        }
    }

    /// Goes to the place of a reader of the same topic, if that is later.
    /// `read_under` and `read_to` are those of that reader.
    pub(super) fn follow(&mut self, cursor: Cursor, read_under: Option<u64>, read_to: u64) {
        if self.cursor.is_before(cursor) {
            self.cursor = self.cursor.advanced_to(cursor);
            self.read_under = read_under;
            self.raise(read_to);
        }
    }

    /// Notes that the client knows everything up to this version.
    pub(super) fn raise(&mut self, read_to: u64) {
        self.read_to = self.read_to.max(read_to);
    }

    /// Goes to the place after `version`.
    pub(super) fn jump(&mut self, version: u64) -> Result<(), Evicted> {
        self.cursor = self.store.begin(version)?;
        Ok(())
    }

    /// Reads the events that may concern another filter's objects from now on.
    pub(super) fn resubscribe(&mut self, filter: &Filter) {
        self.subscription = self.store.subscribe_to(Topic::from_filter(filter));
        self.read_under = None;
    }

    /// Returns a subscription to the same events for a group of watches, the
    /// reader's place, and the number of publications when it was reached.
    pub(super) fn for_group(&self) -> (Subscription, Cursor, Option<u64>) {
        (self.subscription.for_group(), self.cursor, self.read_under)
    }

    pub(super) fn line_id(&self) -> usize {
        self.subscription.line_id()
    }

    /// Stops being woken until the reader waits again.
    pub(super) fn rest(&mut self) {
        self.subscription.rest();
    }
}
