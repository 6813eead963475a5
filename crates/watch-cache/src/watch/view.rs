//! The watch of a view, which shows a part of the objects that changes.
//!
//! When the set of visible objects changes, the watcher is at some place in the
//! log. There it is sent the difference: first DELETED for objects that it no
//! longer sees, then ADDED for objects that it sees now. Both show the objects
//! as they were at that place. Then it reads on under the new set.
//!
//! ```text
//! read ─▶ is the set still the newest? ─▶ hand out
//!              │ no: nothing of it
//!              ▼
//!         DELETED … ADDED … bookmark ─▶ read again
//! ```
//!
//! The set is checked *after* events were read. So every event that is handed
//! out under a set is older than the publication of the next set. Versions that
//! the watch tells are also read before the set is checked. So all of them are
//! at most [`Store::highest_version`] as it is after the publication, also
//! those of objects that a change of the set shows.
//!
//! [`Store::highest_version`]: crate::store::Store::highest_version

use std::sync::Arc;

use kubernetes_wire::representation::EventType;
use tokio::sync::watch::Receiver;

use super::batch::Batch;
use super::session::{INITIAL_BATCH_BYTES, LookedAt, Step, Watch, WatchEnd};
use super::visibility::Resumed;
use super::{NotReached, Visibility};
use crate::store::{Evicted, KeyRanges, KeyScope, Snapshot, Topic, Visible};

/// The state of a watch of a view, beside that of every watch.
pub(super) struct ViewWatch {
    newest: Receiver<Visible>,
    /// The set under which events are handed out.
    shown: Visible,
    /// The change of the set that is being sent.
    change: Option<SetChange>,
    /// The highest version up to which the client was told everything.
    told: u64,
    /// The store has not reached the version that the watch begins after.
    is_ahead: bool,
    /// See [`Visibility::resumed`].
    resumed: Option<Resumed>,
}

/// The change from what the client has been shown to another set.
struct SetChange {
    to: Visible,
    /// The keys that the client has been shown by now.
    has: KeyRanges,
    /// The state at the watch's place in the log, of the keys that change.
    state: Arc<Snapshot>,
    version: u64,
    /// The client has not been sent all initial events.
    begins: bool,
    /// The client was sent something that is not an initial event.
    is_told: bool,
}

impl ViewWatch {
    fn newest(&self) -> Result<Visible, WatchEnd> {
        // Without a sender, nobody would take back a permission.
        self.newest.has_changed().map_err(|_| WatchEnd::Closed)?;
        Ok(self.newest.borrow().clone())
    }

    /// Tells whether the client has been shown the newest set.
    pub(super) fn is_settled(&self) -> Result<bool, WatchEnd> {
        let newest = self.newest()?;
        Ok(self.change.is_none() && newest.is(&self.shown))
    }

    pub(super) fn has_begun(&self) -> bool {
        self.change.as_ref().is_none_or(|change| !change.begins)
    }

    pub(super) fn tell(&mut self, version: u64) {
        self.told = self.told.max(version);
    }

    /// Resolves when there is another set, when the view has ended, and when
    /// the watch is found to have begun with another set.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + use<> {
        let (mut newest, shown) = (self.newest.clone(), self.shown.clone());
        let resumed = self.resumed.clone();
        let refuted = async move {
            match resumed {
                Some(resumed) => resumed.refuted().await,
                None => std::future::pending().await,
            }
        };
        async move {
            tokio::select! {
                // An error means that the view has ended.
                _ = newest.wait_for(|newest| !newest.is(&shown)) => {}
                () = refuted => {}
            }
        }
    }
}

impl Watch {
    /// Shows only a changing part of the objects. A watch from a version begins
    /// with the set that was visible at that version. A watch with initial
    /// events sends those that are visible now. Fails if the store has not
    /// reached the version yet, because newly visible objects are shown in the
    /// store's state.
    pub fn of_view(self, visibility: Visibility) -> Result<Self, NotReached> {
        if self.version() > self.store.highest_version() {
            return Err(NotReached);
        }
        Ok(self.of_view_when_reached(visibility))
    }

    /// Does the same as [`of_view`](Self::of_view), but hands out nothing until
    /// the store has reached the version.
    #[must_use]
    pub fn of_view_when_reached(mut self, visibility: Visibility) -> Self {
        let version = self.version();
        let Visibility {
            begins_with,
            newest,
            resumed,
        } = visibility;
        let change = self.initial.take().map(|initial| SetChange {
            to: begins_with.clone(),
            has: KeyRanges::default(),
            state: initial.snapshot,
            version,
            begins: true,
            is_told: false,
        });
        let is_ahead = version > self.store.highest_version();
        self.view = Some(Box::new(ViewWatch {
            is_ahead,
            resumed,
            newest,
            shown: begins_with.clone(),
            change,
            told: version,
        }));
        self.show(begins_with);
        self
    }

    /// Tells whether the watch of a view begins after a version that the store
    /// has not reached yet. Such a version comes from a list that upstream
    /// answered.
    pub(super) fn is_ahead(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.is_ahead)
    }

    /// Goes to the watch's place in the log, if the store has reached it.
    pub(super) fn catch_up(&mut self) -> Result<(), WatchEnd> {
        let version = self.version();
        let Some(view) = &mut self.view else {
            return Ok(());
        };
        view.newest()?;
        if self.store.progress().closed {
            return Err(WatchEnd::Closed);
        }
        if version <= self.store.highest_version() {
            let place = self.store.begin(version);
            self.cursor = place.map_err(|Evicted { .. }| WatchEnd::FellBehind)?;
            view.is_ahead = false;
        }
        Ok(())
    }

    pub(super) async fn reached(&mut self) {
        let version = self.version();
        let mut progress = self.store.subscribe();
        let reached = progress.wait_for(|p| p.closed || p.resource_version >= version);
        let newest = self.view.as_ref().map(|view| view.newest.clone());
        let ended = async {
            match newest {
                // This resolves when the sender is gone.
                Some(mut newest) => drop(newest.wait_for(|_| false).await),
                None => std::future::pending().await,
            }
        };
        // No bookmark is sent before that.
        let deadline = self.ends_at();
        tokio::select! {
            _ = reached => {}
            () = ended => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    }

    /// Hands out events of this set from now on.
    fn show(&mut self, visible: Visible) {
        self.options.filter.scope = KeyScope::Visible(visible);
        let topic = Topic::of(&self.options.filter);
        self.subscription = self.store.subscribe_to(topic);
        self.read_under = None;
    }

    /// Returns the next step towards the newest set, which comes before the log
    /// is read on. `None` if the client has been shown the newest set.
    pub(super) fn turn(&mut self) -> Result<Option<Step>, WatchEnd> {
        let Some(view) = &mut self.view else {
            return Ok(None);
        };
        let newest = view.newest()?;
        // If a change makes the first set doubtful, the doubt is published
        // before the set, so it is seen here.
        if view.resumed.as_ref().is_some_and(Resumed::is_refuted) {
            return Err(WatchEnd::FellBehind);
        }
        let is_new = match &view.change {
            Some(change) => !newest.is(&change.to),
            None if newest.is(&view.shown) => return Ok(None),
            None => true,
        };
        if is_new {
            let (has, begins, is_told) = match &view.change {
                Some(change) => (change.has.clone(), change.begins, change.is_told),
                None => (KeyRanges::of(&view.shown), false, false),
            };
            let to = KeyRanges::of(&newest);
            let concerned = has.minus(&to).plus(&to.minus(&has));
            let state = self
                .store
                .state_at(self.cursor, |key| concerned.contains(key))
                .map_err(|Evicted { .. }| WatchEnd::FellBehind)?;
            let Some((state, version)) = state else {
                return Ok(Some(Step::Again));
            };
            view.change = Some(SetChange {
                to: newest,
                has,
                state,
                version: version.max(view.told),
                begins,
                is_told,
            });
        }
        self.go_on_with_change().map(Some)
    }

    fn go_on_with_change(&mut self) -> Result<Step, WatchEnd> {
        let mut batch = Batch::default();
        let Some(view) = &mut self.view else {
            return Ok(Step::Again);
        };
        let Some(mut change) = view.change.take() else {
            return Ok(Step::Again);
        };
        let to = KeyRanges::of(&change.to);
        let lost = change.has.minus(&to);
        let gained = to.minus(&change.has);
        if !lost.is_empty() {
            let told = self.tell_part(&change, lost, EventType::Deleted, &mut batch)?;
            change.has = change.has.minus(&told);
        } else if !gained.is_empty() {
            let told = self.tell_part(&change, gained, EventType::Added, &mut batch)?;
            change.has = change.has.plus(&told);
        } else {
            return self.settle(change);
        }
        let batch = batch.finish();
        change.is_told |= batch.is_some() && !change.begins;
        if let Some(view) = &mut self.view {
            view.change = Some(change);
        }
        match batch {
            Some((frames, events)) => Ok(Step::Batch(self.compress(frames)?, events)),
            None => Ok(Step::Again),
        }
    }

    /// Sends objects with these keys, which the client no longer sees or sees
    /// now, as far as they fit. Returns the keys that were sent.
    fn tell_part(
        &mut self,
        change: &SetChange,
        keys: KeyRanges,
        seen: EventType,
        batch: &mut Batch,
    ) -> Result<KeyRanges, WatchEnd> {
        // As for initial events, objects are not kept for a client that takes
        // longer than history lasts.
        if !self.store.holds(&self.cursor) {
            return Err(WatchEnd::FellBehind);
        }
        let mut looked_at = LookedAt::default();
        for object in change.state.objects_in(&keys) {
            if looked_at.is_enough() || batch.room(INITIAL_BATCH_BYTES).is_none() {
                return Ok(keys.below(&object.key));
            }
            looked_at.test(object);
            if !self.options.filter.selects(object) {
                continue;
            }
            looked_at.write(object, self.frames.passes());
            let is_written = match seen {
                EventType::Deleted => object
                    .stamped(change.version, &self.store.resource.envelope)
                    .is_some_and(|last| self.frames.append(seen, &last, batch.add())),
                _ => self.frames.append(seen, object, batch.add()),
            };
            if !is_written {
                return Err(WatchEnd::NotEncodable);
            }
        }
        Ok(keys)
    }

    /// Continues under the set, now that the client has been shown all of it.
    fn settle(&mut self, change: SetChange) -> Result<Step, WatchEnd> {
        if let Some(view) = &mut self.view {
            view.shown = change.to.clone();
            view.tell(change.version);
        }
        // Progress may not have reached the version that was shown.
        self.read_to = self.read_to.max(change.version);
        self.show(change.to);
        // The shown objects have older versions than the client knows, so a
        // bookmark follows.
        let owes = change.is_told && self.options.bookmarks && self.owed_end.is_none();
        match owes.then(|| self.frames.bookmark(change.version, false)) {
            Some(Some(frame)) => Ok(Step::Batch(self.compress(frame)?, 1)),
            Some(None) | None => Ok(Step::Again),
        }
    }
}
