//! Writes a watch's events in one representation. The events keep the frames that all
//! their watchers share (`store/event.rs`).

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use kubernetes_wire::representation::{Encoding, Envelope, EventType};

use super::batch::{compressed, packed};
use crate::LeftOut;
use crate::store::{
    Event, ItemsWithoutManagedFields, Leaf, MadeFrame, SharedFrame, StoredObject,
    without_managed_fields,
};

/// Writes events as bytes, for one watcher.
pub trait FrameWriter: Send {
    /// Makes a whole frame. `None` if the object cannot be written in this
    /// representation. The watch then ends.
    fn make(&mut self, seen: EventType, object: &StoredObject) -> Option<MadeFrame>;

    /// Returns what counts the bytes that the watcher is not sent, if something is left
    /// out.
    fn left_out(&self) -> Option<&LeftOut> {
        None
    }

    /// Returns a whole frame for this watcher.
    fn event(&mut self, seen: EventType, object: &StoredObject) -> Option<Bytes> {
        let made = self.make(seen, object)?;
        if let Some(left_out) = self.left_out() {
            left_out.add(made.left_out);
        }
        Some(made.bytes)
    }

    /// Returns the representation, if its frames are the same for all watchers
    /// at all times.
    fn shares(&self) -> Option<SharedFrame> {
        None
    }

    /// Tells whether the next frame differs from the frames after it.
    fn is_first(&self) -> bool {
        false
    }

    /// Returns how often an object is read to write it.
    fn passes(&self) -> usize {
        1
    }

    /// Returns the frame of an event of the log, as a gzip member if it
    /// `compresses`. All watchers of the representation share the frame if they
    /// can.
    fn logged(
        &mut self,
        event: &Event,
        seen: EventType,
        envelope: &Envelope,
        compresses: bool,
    ) -> Option<Bytes> {
        let Some(of) = self.shares() else {
            let object = event.shown(seen, envelope)?;
            return packed(self.event(seen, &object)?, compresses);
        };
        let mut plain = || {
            let make = || {
                let object = event.shown(seen, envelope)?;
                self.make(seen, &object)
            };
            event.frame(of, false, seen, make)
        };
        let frame = match compresses {
            true => {
                let make = || Some(compressed(&plain()?)?.into());
                event.frame(of, true, seen, make)
            }
            false => plain(),
        };
        if let Some(left_out) = self.left_out() {
            left_out.add(event.left_out(of, false, seen));
        }
        frame
    }

    /// Returns the cut items that a leaf keeps for all watchers. `makes` tells whether
    /// they may be made now.
    fn kept(&self, _leaf: &Leaf, _makes: bool) -> Option<Arc<ItemsWithoutManagedFields>> {
        None
    }

    /// Appends the frame of an object with which the watch begins. Returns false if it
    /// cannot be written. `_kept` is its item of [`kept`](Self::kept).
    fn append_initial(
        &mut self,
        object: &StoredObject,
        _kept: Option<(Bytes, usize)>,
        out: &mut BytesMut,
    ) -> bool {
        self.append(EventType::Added, object, out)
    }

    /// Does the same as [`event`](Self::event), but appends the frame to `out`.
    /// Returns false if the object cannot be written.
    fn append(&mut self, seen: EventType, object: &StoredObject, out: &mut BytesMut) -> bool {
        let frame = self.event(seen, object);
        out.extend_from_slice(frame.as_deref().unwrap_or_default());
        frame.is_some()
    }

    fn encoding(&self) -> Encoding;

    fn content_type(&self) -> &'static str {
        match self.encoding() {
            Encoding::Json => JSON,
            Encoding::Protobuf => PROTOBUF,
        }
    }

    /// Returns a bookmark. `None` if bookmarks of this resource cannot be
    /// written.
    fn bookmark(&mut self, resource_version: u64, initial_events_end: bool) -> Option<Bytes>;
}

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Returns the item without managedFields if there is a `left_out`, and the bytes that
/// it lacks then.
pub(super) fn cut(
    item: Bytes,
    encoding: Encoding,
    left_out: Option<&LeftOut>,
) -> Option<(Bytes, usize)> {
    match left_out {
        None => Some((item, 0)),
        Some(_) => without_managed_fields(&item, encoding),
    }
}
