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
use tokio::time::Instant;

use super::batch::Batch;
use super::looked_at::LookedAt;
use super::opening::INITIAL_BATCH_BYTES;
use super::step::{Step, WatchEnd};
use super::stepper::Stepper;
use super::visibility::{Resumed, Visibility};
use crate::store::{KeyRanges, Snapshot, Visible};

/// Steps through what the client of a view is sent. It lets the stepper of every
/// watch read the log, and sends the changes of the set itself.
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
    /// Takes the initial events over from the stepper. The client is shown the set
    /// that the visibility begins with.
    pub(super) fn begin(stepper: &mut Stepper, visibility: Visibility) -> Self {
        let version = stepper.frames.after();
        let Visibility {
            begins_with,
            newest,
            resumed,
        } = visibility;
        let change = stepper.opening.take_initial().map(|state| SetChange {
            to: begins_with.clone(),
            has: KeyRanges::default(),
            state,
            version,
            begins: true,
            is_told: false,
        });
        let view = Self {
            is_ahead: version > stepper.store().highest_version(),
            resumed,
            newest,
            shown: begins_with.clone(),
            change,
            told: version,
        };
        stepper.show(begins_with);
        view
    }

    fn newest(&self) -> Result<Visible, WatchEnd> {
        // Without a sender, nobody would take back a permission.
        self.newest.has_changed().map_err(|_| WatchEnd::Closed)?;
        Ok(self.newest.borrow().clone())
    }

    /// Tells whether the client has been shown the newest set.
    fn is_settled(&self) -> Result<bool, WatchEnd> {
        let newest = self.newest()?;
        Ok(self.change.is_none() && newest.is(&self.shown))
    }

    pub(super) fn has_begun(&self) -> bool {
        self.change.as_ref().is_none_or(|change| !change.begins)
    }

    fn tell(&mut self, version: u64) {
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

    /// Returns what can be done without waiting.
    pub(super) fn step(&mut self, stepper: &mut Stepper, now: Instant) -> Result<Step, WatchEnd> {
        if self.is_ahead {
            self.catch_up(stepper)?;
            if self.is_ahead {
                return Ok(Step::Idle);
            }
        }
        // As in every watch, progress is read first, then publications, then the
        // log. The set is read in between.
        let progress = stepper.store().progress();
        if let Some(step) = self.turn(stepper)? {
            return Ok(step);
        }
        let publications = stepper.log.publications();
        // A waiting view also reads events that it does not show, because a
        // change of its set is told at its place in the log. Events may be sent
        // only if they were not published after a newer set.
        let settled = || self.is_settled();
        if let Some(step) = stepper.read_on(publications, settled)? {
            return Ok(step);
        }
        self.tell(stepper.shown_version(progress));
        stepper.bookmark_or_idle(Some(progress), now)
    }

    /// Tells whether the watch of a view begins after a version that the store
    /// has not reached yet. Such a version comes from a list that upstream
    /// answered.
    pub(super) fn is_ahead(&self) -> bool {
        self.is_ahead
    }

    /// Goes to the watch's place in the log, if the store has reached it.
    fn catch_up(&mut self, stepper: &mut Stepper) -> Result<(), WatchEnd> {
        let version = stepper.frames.after();
        self.newest()?;
        if stepper.store().progress().closed {
            return Err(WatchEnd::Closed);
        }
        if version <= stepper.store().highest_version() {
            stepper.log.jump(version)?;
            self.is_ahead = false;
        }
        Ok(())
    }

    /// Waits until the store may have reached the version that the watch begins
    /// after.
    pub(super) fn reached(&self, stepper: &Stepper) -> impl Future<Output = ()> + use<> {
        let version = stepper.frames.after();
        let mut progress = stepper.store().subscribe();
        let mut newest = self.newest.clone();
        let deadline = stepper.bookmarks.deadline();
        async move {
            tokio::select! {
                _ = progress.wait_for(|p| p.closed || p.resource_version >= version) => {}
                // This resolves when the sender is gone.
                _ = newest.wait_for(|_| false) => {}
                // No bookmark is sent before that.
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    /// Returns the next step towards the newest set, which comes before the log
    /// is read on. `None` if the client has been shown the newest set.
    fn turn(&mut self, stepper: &mut Stepper) -> Result<Option<Step>, WatchEnd> {
        let newest = self.newest()?;
        // If a change makes the first set doubtful, the doubt is published
        // before the set, so it is seen here.
        if self.resumed.as_ref().is_some_and(Resumed::is_refuted) {
            return Err(WatchEnd::FellBehind);
        }
        let is_new = match &self.change {
            Some(change) => !newest.is(&change.to),
            None if newest.is(&self.shown) => return Ok(None),
            None => true,
        };
        if is_new {
            let Some(change) = self.change_to(newest, stepper)? else {
                return Ok(Some(Step::Again));
            };
            self.change = Some(change);
        }
        self.go_on_with_change(stepper).map(Some)
    }

    /// Returns the change to the newest set, from what the client has been shown.
    /// `None` while the store's state at the watch's place is not known.
    fn change_to(&self, newest: Visible, stepper: &Stepper) -> Result<Option<SetChange>, WatchEnd> {
        let (has, begins, is_told) = match &self.change {
            Some(change) => (change.has.clone(), change.begins, change.is_told),
            None => (KeyRanges::from_visible(&self.shown), false, false),
        };
        let to = KeyRanges::from_visible(&newest);
        let concerned = has.minus(&to).plus(&to.minus(&has));
        let (store, place) = (stepper.store(), stepper.log.cursor());
        let state = store.state_at(place, |key| concerned.contains(key))?;
        Ok(state.map(|(state, version)| SetChange {
            to: newest,
            has,
            state,
            version: version.max(self.told),
            begins,
            is_told,
        }))
    }

    fn go_on_with_change(&mut self, stepper: &mut Stepper) -> Result<Step, WatchEnd> {
        let mut batch = Batch::default();
        let Some(mut change) = self.change.take() else {
            return Ok(Step::Again);
        };
        let to = KeyRanges::from_visible(&change.to);
        let lost = change.has.minus(&to);
        let gained = to.minus(&change.has);
        if !lost.is_empty() {
            let told = tell_part(stepper, &change, lost, EventType::Deleted, &mut batch)?;
            change.has = change.has.minus(&told);
        } else if !gained.is_empty() {
            let told = tell_part(stepper, &change, gained, EventType::Added, &mut batch)?;
            change.has = change.has.plus(&told);
        } else {
            return self.settle(change, stepper);
        }
        let batch = batch.finish();
        change.is_told |= batch.is_some() && !change.begins;
        self.change = Some(change);
        match batch {
            Some((frames, events)) => Ok(Step::Batch(stepper.frames.compress(frames)?, events)),
            None => Ok(Step::Again),
        }
    }

    /// Continues under the set, now that the client has been shown all of it.
    fn settle(&mut self, change: SetChange, stepper: &mut Stepper) -> Result<Step, WatchEnd> {
        self.shown = change.to.clone();
        self.tell(change.version);
        // Progress may not have reached the version that was shown.
        stepper.log.raise(change.version);
        stepper.show(change.to);
        // The shown objects have older versions than the client knows, so a
        // bookmark follows.
        let wanted = stepper.bookmarks.are_wanted() && !stepper.opening.owes_end();
        let owes = change.is_told && wanted;
        match owes.then(|| stepper.frames.bookmark(change.version, false)) {
            Some(Some(frame)) => Ok(Step::Batch(stepper.frames.compress(frame)?, 1)),
            Some(None) | None => Ok(Step::Again),
        }
    }
}

/// Sends objects with these keys, which the client no longer sees or sees
/// now, as far as they fit. Returns the keys that were sent.
fn tell_part(
    stepper: &mut Stepper,
    change: &SetChange,
    keys: KeyRanges,
    seen: EventType,
    batch: &mut Batch,
) -> Result<KeyRanges, WatchEnd> {
    // As for initial events, objects are not kept for a client that takes
    // longer than history lasts.
    if !stepper.log.has_place() {
        return Err(WatchEnd::FellBehind);
    }
    let Stepper { log, frames, .. } = stepper;
    let (filter, writer) = frames.parts();
    let mut looked_at = LookedAt::default();
    for object in change.state.objects_in(&keys) {
        if looked_at.is_enough() || batch.room(INITIAL_BATCH_BYTES).is_none() {
            return Ok(keys.below(&object.key));
        }
        looked_at.test(object);
        if !filter.selects(object) {
            continue;
        }
        looked_at.write(object, writer.passes());
        let is_written = match seen {
            EventType::Deleted => object
                .stamped(change.version, &log.store().resource.envelope)
                .is_some_and(|last| writer.append(seen, &last, batch.add())),
            _ => writer.append(seen, object, batch.add()),
        };
        if !is_written {
            return Err(WatchEnd::NotEncodable);
        }
    }
    Ok(keys)
}
