//! The columns in the Tables of a watch.
//!
//! The first Table of a watch has them. kube-apiserver repeats them in a later Table
//! if the first came from another watcher of the same events: the watcher that
//! encoded an event for all forgets its columns, but the others do not
//! (k8s.io/apiserver `endpoints/handlers`, the encoder of embedded objects).

use bytes::Bytes;

use super::frames::Frame;

const COLUMNS: &[u8] = b"\"columnDefinitions\":";
const NONE: &[u8] = b"null";
const ROWS: &[u8] = b",\"rows\":";

/// The columns of a watch, once its first Table was seen.
#[derive(Debug, Default)]
pub struct Columns(Option<Bytes>);

impl Columns {
    /// Takes the columns, if the event has them.
    pub fn note(&mut self, frame: &Frame) {
        if frame.is_table()
            && self.0.is_none()
            && let Some((start, end)) = place(&frame.bytes)
        {
            let columns = frame.bytes.slice(start..end);
            self.0 = Some(columns).filter(|columns| columns.as_ref() != NONE);
        }
    }

    /// Returns our event with the columns added, if upstream's event repeats them.
    pub fn repeated(&self, theirs: &Frame, ours: &Frame) -> Option<Frame> {
        let columns = self.0.as_ref().filter(|_| theirs.is_table())?;
        let (their_start, their_end) = place(&theirs.bytes)?;
        let (start, end) = place(&ours.bytes)?;
        let has_none = ours.bytes.get(start..end)? == NONE;
        if !has_none || theirs.bytes.get(their_start..their_end)? == NONE {
            return None;
        }
        let (before, after) = (ours.bytes.get(..start)?, ours.bytes.get(end..)?);
        Some(ours.with_bytes([before, columns, after].concat().into()))
    }
}

fn place(event: &[u8]) -> Option<(usize, usize)> {
    let find = |what: &[u8], from: usize| {
        let rest = event.get(from..)?;
        let at = rest.windows(what.len()).position(|bytes| bytes == what)?;
        from.checked_add(at)
    };
    let start = find(COLUMNS, 0)?.saturating_add(COLUMNS.len());
    Some((start, find(ROWS, start)?))
}

#[cfg(test)]
mod tests {
    use super::super::{FrameReader, Label};
    use super::*;

    fn frame(columns: &str, row: &str) -> Frame {
        let event = format!(
            r#"{{"type":"ADDED","object":{{"kind":"Table","columnDefinitions":{columns},"rows":[{row}]}}}}"#
        );
        let mut frames = Vec::new();
        let mut reader = FrameReader::new(Label::Table, false);
        let line = format!("{event}\n");
        reader.push(line.as_bytes(), &mut frames).unwrap();
        frames.remove(0)
    }

    #[test]
    fn columns_may_be_repeated_as_they_were() {
        let mut columns = Columns::default();
        let named = r#"[{"name":"Name"}]"#;
        let (with, without) = (frame(named, "1"), frame("null", "1"));
        columns.note(&without);
        assert_eq!(columns.repeated(&with, &without), None);
        columns.note(&with);
        assert_eq!(columns.repeated(&with, &without), Some(with.clone()));
        // All other differences still count, and so do other columns.
        let other = frame(named, "2");
        assert_ne!(columns.repeated(&other, &without), Some(other.clone()));
        let renamed = frame(r#"[{"name":"Age"}]"#, "1");
        assert_eq!(columns.repeated(&renamed, &without), Some(with.clone()));
        // Upstream must have columns where ours are.
        assert_eq!(columns.repeated(&without, &with), None);
    }
}
