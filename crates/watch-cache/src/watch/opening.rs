//! The events that a watch sends before those of the log.
//!
//! ```text
//! initial events ─▶ end bookmark ─▶ log
//! events before the log ──────────▶ log
//! an event that says why there are no others ─▶ end
//! ```

use std::sync::Arc;

use bytes::Bytes;

use super::batch::Batch;
use super::client_frames::ClientFrames;
use super::log_reader::LogReader;
use super::looked_at::LookedAt;
use super::step::{Step, WatchEnd};
use super::transition::event_type;
use crate::store::{EarlierEvents, Snapshot};

/// The approximate size of a batch of events. It is small enough that other
/// tasks get their turn, and large enough for efficient writes.
pub(super) const BATCH_BYTES: usize = 64 << 10;

/// Initial events come in larger batches.
pub(super) const INITIAL_BATCH_BYTES: usize = 128 << 10;

#[derive(Default)]
pub(super) struct Opening {
    refusal: Option<Refusal>,
    earlier: Option<EarlierEvents>,
    initial: Option<Initial>,
    /// The version of the bookmark that will mark the end of the initial
    /// events.
    owed_end: Option<u64>,
}

/// The only event of a watch that cannot begin.
enum Refusal {
    Untold(Bytes),
    Told,
}

/// The objects of a snapshot, from the key `start`.
struct Initial {
    snapshot: Arc<Snapshot>,
    start: String,
}

impl Opening {
    /// Sends only this frame.
    pub(super) fn refused(frame: Bytes) -> Self {
        Self {
            refusal: Some(Refusal::Untold(frame)),
            ..Self::default()
        }
    }

    pub(super) fn earlier(events: EarlierEvents) -> Self {
        Self {
            earlier: Some(events),
            ..Self::default()
        }
    }

    /// Sends the objects of a snapshot, and marks their end if it is `marked`.
    pub(super) fn initial(snapshot: Arc<Snapshot>, marked: bool) -> Self {
        let version = snapshot.resource_version;
        Self {
            initial: Some(Initial {
                snapshot,
                start: String::new(),
            }),
            owed_end: marked.then_some(version),
            ..Self::default()
        }
    }

    /// Omits the bookmark that marks the end of the initial events.
    pub(super) fn unmark(&mut self) {
        self.owed_end = None;
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refusal.is_some()
    }

    /// Tells whether all was handed out.
    pub(super) fn is_over(&self) -> bool {
        self.initial.is_none() && self.earlier.is_none() && self.owed_end.is_none()
    }

    /// Tells whether there are objects left to send.
    pub(super) fn has_initial(&self) -> bool {
        self.initial.is_some()
    }

    /// Tells whether the end of the initial events is still to be marked.
    pub(super) fn owes_end(&self) -> bool {
        self.owed_end.is_some()
    }

    /// Leaves the initial objects to the caller.
    pub(super) fn take_initial(&mut self) -> Option<Arc<Snapshot>> {
        self.initial.take().map(|initial| initial.snapshot)
    }

    /// Returns the step of a watch that cannot begin. `None` if the watch can.
    pub(super) fn refusal(&mut self) -> Result<Option<Step>, WatchEnd> {
        let Some(refusal) = &mut self.refusal else {
            return Ok(None);
        };
        match std::mem::replace(refusal, Refusal::Told) {
            Refusal::Untold(frame) => Ok(Some(Step::Batch(frame, 1))),
            Refusal::Told => Err(WatchEnd::Expired),
        }
    }

    /// Adds what comes before the log's events to an empty batch. Returns false if
    /// some of it is left, because the batch is full.
    pub(super) fn add_to(
        &mut self,
        batch: &mut Batch,
        frames: &mut ClientFrames,
        log: &LogReader,
    ) -> Result<bool, WatchEnd> {
        if let Some(mut earlier) = self.earlier.take() {
            while let Some((change, object)) = earlier.next() {
                batch.push(frames.own(event_type(*change), object)?);
                if batch.room(BATCH_BYTES).is_none() {
                    self.earlier = Some(earlier);
                    return Ok(false);
                }
            }
        }
        if let Some(mut initial) = self.initial.take()
            && let Some(start) = initial.add_to(batch, frames, log)?
        {
            initial.start = start;
            self.initial = Some(initial);
            return Ok(false);
        }
        if let Some(version) = self.owed_end.take() {
            let frame = frames.bookmark(version, true);
            batch.push(frame.ok_or(WatchEnd::NotEncodable)?);
        }
        Ok(true)
    }
}

impl Initial {
    /// Adds objects to an empty batch. If there are more objects, returns the
    /// key to continue at.
    fn add_to(
        &self,
        batch: &mut Batch,
        frames: &mut ClientFrames,
        log: &LogReader,
    ) -> Result<Option<String>, WatchEnd> {
        // If a watcher takes longer than history lasts, it would keep objects
        // in memory that nobody else needs. The events after them would be gone
        // by then.
        if !log.has_place() {
            return Err(WatchEnd::FellBehind);
        }
        let (filter, writer) = frames.parts();
        let mut looked_at = LookedAt::default();
        let selects_all = filter.selects_all();
        for span in self.snapshot.spans(&filter.scope, &self.start) {
            if !filter.may_match_in(span.leaf) {
                if looked_at.is_enough() {
                    return Ok(span.objects().first().map(|o| o.key.as_str().to_owned()));
                }
                looked_at.pass_over();
                continue;
            }
            let makes = selects_all && span.is_whole() && LookedAt::is_allowed(span.objects());
            let kept = writer.kept(span.leaf, makes);
            for (at, object) in span.placed() {
                if looked_at.is_enough() || batch.room(INITIAL_BATCH_BYTES).is_none() {
                    return Ok(Some(object.key.as_str().to_owned()));
                }
                looked_at.test(object);
                if !filter.matches(object) {
                    continue;
                }
                looked_at.write(object, writer.passes());
                let kept = kept.as_ref().and_then(|kept| kept.item(at));
                if !writer.append_initial(object, kept, batch.add()) {
                    return Err(WatchEnd::NotEncodable);
                }
            }
        }
        Ok(None)
    }
}
