//! An event whose objects are still bodies. They are left out of one that would be too
//! long (truncation).

use std::sync::Arc;
use std::time::SystemTime;

use super::level::{Level, Stage};
use super::outcome::Bodies;
use super::record::Record;

#[derive(Debug)]
pub(super) struct Unfinished {
    pub(super) record: Record,
    pub(super) stage: Stage,
    pub(super) at: SystemTime,
    pub(super) bodies: Arc<Bodies>,
}

impl Unfinished {
    /// Appends the event as a line. If the line is longer than `most`, the objects
    /// are left out, as in kube-apiserver's truncating backend. If it is too long
    /// even then, appends nothing and returns false.
    pub(super) fn write(&self, most: Option<usize>, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        let outcome = Some(self.bodies.outcome());
        let write = |stripped, out: &mut Vec<u8>| {
            out.truncate(before);
            self.record
                .write(self.stage, self.at, outcome, stripped, out);
            most.is_none_or(|most| out.len().saturating_sub(before) <= most)
        };
        if write(false, out) || self.record.level >= Level::Request && write(true, out) {
            return true;
        }
        out.truncate(before);
        false
    }
}
