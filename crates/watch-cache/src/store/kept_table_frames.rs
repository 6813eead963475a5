//! The frames of an event as a Table. They are right for one second, because they
//! show ages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kubernetes_wire::representation::EventType;
use kubernetes_wire::representation::table::{Printer, TableOptions};
use parking_lot::Mutex;

use super::frame::MadeFrame;

/// The facts that decide how a Table of an event looks.
#[derive(Clone, Debug)]
pub struct TableShape {
    pub printer: Arc<Printer>,
    pub options: TableOptions,
    pub without_managed_fields: bool,
    /// Whether the Table is the first of its watch, which has the columns.
    pub first: bool,
    pub compressed: bool,
    pub seen: EventType,
    /// The second that ages are counted to.
    pub second: i64,
}

impl PartialEq for TableShape {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.printer, &other.printer)
            && (
                self.options,
                self.without_managed_fields,
                self.first,
                self.compressed,
                self.seen,
                self.second,
            ) == (
                other.options,
                other.without_managed_fields,
                other.first,
                other.compressed,
                other.seen,
                other.second,
            )
    }
}

/// The last frames that were made: one of a first Table, and one of another. Most
/// watchers of an event want the same.
#[derive(Debug, Default)]
pub(super) struct TableFrames(Mutex<[Option<Kept>; 2]>);

/// A frame with its shape. `None` if the object cannot be written as this Table.
type Kept = (TableShape, Option<MadeFrame>);

impl TableFrames {
    /// Returns the frame of this shape, and makes it if needed. `counted` counts the
    /// bytes that are kept.
    pub(super) fn get(
        &self,
        shape: TableShape,
        counted: Option<&AtomicUsize>,
        make: impl FnOnce() -> Option<MadeFrame>,
    ) -> Option<MadeFrame> {
        // Watchers that want the same frame wait here until it is made.
        let mut kept = self.0.lock();
        let Some(slot) = kept.get_mut(usize::from(shape.first)) else {
            return make();
        };
        if let Some((of, frame)) = slot
            && *of == shape
        {
            return frame.clone();
        }
        let frame = make();
        let old = slot.replace((shape, frame.clone()));
        if let Some(counted) = counted {
            counted.fetch_add(length(frame.as_ref()), Ordering::Relaxed);
            let old = old.and_then(|(_, frame)| frame);
            counted.fetch_sub(length(old.as_ref()), Ordering::Relaxed);
        }
        frame
    }

    pub(super) fn bytes(&self) -> usize {
        let kept = self.0.lock();
        let frames = kept.iter().flatten();
        frames.map(|(_, frame)| length(frame.as_ref())).sum()
    }
}

fn length(frame: Option<&MadeFrame>) -> usize {
    frame.map_or(0, |frame| frame.bytes.len())
}
