//! Rows that are complete except for their ages.

use std::iter;
use std::ops::Range;

use chrono::{DateTime, Utc};

use super::age::Moment;
use super::row::{Cell, Piece, Row};
use crate::api::go_json;

/// The rows of neighbouring objects, each up to the place where it shows its
/// object. Only ages change between answers, so the text has holes for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Printed {
    text: Vec<u8>,
    holes: Vec<AgeSlot>,
    ends: Vec<End>,
}

/// The end of a row in the text and in the holes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct End {
    text: usize,
    holes: usize,
    /// See [`PrintedRow::marked`].
    marked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct AgeSlot {
    at: usize,
    moment: Moment,
}

/// One row of a [`Printed`].
#[derive(Clone, Copy, Debug)]
pub struct PrintedRow<'a> {
    /// The text of all rows. The row is `start..end`.
    text: &'a [u8],
    start: usize,
    end: usize,
    holes: &'a [AgeSlot],
    /// True if the row shows metadata even if the client asked for no object.
    pub marked: bool,
}

impl Printed {
    /// Appends a row. For `marked`, see [`PrintedRow::marked`].
    pub(crate) fn push(&mut self, row: &Row, marked: bool) {
        self.text.extend_from_slice(b"{\"cells\":[");
        for (i, cell) in row.cells.iter().enumerate() {
            if i > 0 {
                self.text.push(b',');
            }
            self.cell(cell);
        }
        self.text.push(b']');
        if !row.conditions.is_empty() {
            self.text.extend_from_slice(b",\"conditions\":");
            self.text.extend_from_slice(row.conditions.as_bytes());
        }
        self.text.extend_from_slice(b",\"object\":");
        self.ends.push(End {
            text: self.text.len(),
            holes: self.holes.len(),
            marked,
        });
    }

    fn cell(&mut self, cell: &Cell) {
        match cell {
            Cell::Fixed(json) => self.text.extend_from_slice(json.as_bytes()),
            Cell::Age(moment) => {
                self.text.push(b'"');
                self.hole(*moment);
                self.text.push(b'"');
            }
            Cell::Mixed(pieces) => {
                self.text.push(b'"');
                for piece in pieces {
                    match piece {
                        Piece::Text(text) => {
                            let quoted = go_json::to_vec(text);
                            let inside = quoted.get(1..quoted.len().saturating_sub(1));
                            self.text.extend_from_slice(inside.unwrap_or_default());
                        }
                        Piece::Age(moment) => self.hole(*moment),
                    }
                }
                self.text.push(b'"');
            }
        }
    }

    fn hole(&mut self, moment: Moment) {
        let at = self.text.len();
        self.holes.push(AgeSlot { at, moment });
    }

    /// Returns the rows in the order in which they were pushed.
    pub fn rows(&self) -> impl Iterator<Item = PrintedRow<'_>> {
        let starts = iter::once(End::default()).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| PrintedRow {
            text: &self.text,
            start: start.text,
            end: end.text,
            holes: self.holes.get(start.holes..end.holes).unwrap_or_default(),
            marked: end.marked,
        })
    }

    /// Frees unused capacity before the rows are kept.
    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.holes.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Returns the number of bytes that the rows take.
    pub fn size(&self) -> usize {
        let holes = self.holes.capacity().saturating_mul(size_of::<AgeSlot>());
        let ends = self.ends.capacity().saturating_mul(size_of::<End>());
        self.text
            .capacity()
            .saturating_add(holes.saturating_add(ends))
    }
}

impl PrintedRow<'_> {
    /// Writes the row. `object` is the encoded object to show in it, or `null`.
    pub(crate) fn write(self, now: DateTime<Utc>, object: &[&[u8]], mut out: impl FnMut(&[u8])) {
        let text = |range: Range<usize>| self.text.get(range).unwrap_or_default();
        let mut at = self.start;
        for hole in self.holes {
            out(text(at..hole.at));
            out(hole.moment.age(now).as_json());
            at = hole.at;
        }
        out(text(at..self.end));
        for part in object {
            out(part);
        }
        out(b"}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_at_answer_time() {
        let moment = Moment::parse("2026-11-21T03:00:00Z").unwrap().unwrap();
        let mut printed = Printed::default();
        printed.push(
            &Row::new(vec![
                Cell::text("a<b"),
                Cell::integer(3),
                Cell::age(None),
                Cell::age(Some(moment)),
                Cell::Mixed(Box::new([
                    Piece::Text("3 <(".into()),
                    Piece::Age(moment),
                    Piece::Text(" ago)".into()),
                ])),
                Cell::null(),
            ]),
            false,
        );
        printed.push(
            &Row {
                cells: vec![Cell::age(Some(moment)), Cell::boolean(true)],
                conditions: "[1]",
            },
            true,
        );
        let size = printed.size();
        printed.shrink();
        assert!(printed.size() <= size);
        let show = |minutes: i64| {
            let now = moment.0 + chrono::TimeDelta::minutes(minutes);
            let mut out = Vec::new();
            for row in printed.rows() {
                row.write(now, &[b"nu", b"ll"], |text| out.extend_from_slice(text));
            }
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            show(5),
            concat!(
                r#"{"cells":["a\u003cb",3,"\u003cunknown\u003e","5m","3 \u003c(5m ago)",null],"object":null}"#,
                r#"{"cells":["5m",true],"conditions":[1],"object":null}"#
            )
        );
        assert!(
            show(-5).ends_with(
                r#"{"cells":["\u003cinvalid\u003e",true],"conditions":[1],"object":null}"#
            )
        );
    }
}
