//! A row of a Table: cells, of which some tell an age and so are written anew
//! for every answer.

use chrono::{DateTime, Utc};

use super::age::Moment;
use crate::api::go_json;

/// A part of a cell that holds ages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    Age(Moment),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// JSON.
    Fixed(Box<str>),
    Age(Moment),
    /// `3 (5m ago)`.
    Mixed(Box<[Piece]>),
}

impl Cell {
    pub fn text(text: &str) -> Self {
        Self::Fixed(quoted(text).into())
    }

    pub fn integer(value: i64) -> Self {
        Self::Fixed(value.to_string().into())
    }

    pub fn boolean(value: bool) -> Self {
        Self::Fixed(value.to_string().into())
    }

    pub fn null() -> Self {
        Self::Fixed("null".into())
    }

    /// The age of a time that may not be there.
    pub fn age(moment: Option<Moment>) -> Self {
        moment.map_or_else(|| Self::text("<unknown>"), Self::Age)
    }

    pub fn write(&self, now: DateTime<Utc>, out: &mut Vec<u8>) {
        match self {
            Self::Fixed(json) => out.extend_from_slice(json.as_bytes()),
            Self::Age(moment) => out.extend_from_slice(quoted(&moment.age(now)).as_bytes()),
            Self::Mixed(pieces) => {
                let text: String = pieces
                    .iter()
                    .map(|piece| match piece {
                        Piece::Text(text) => text.clone(),
                        Piece::Age(moment) => moment.age(now),
                    })
                    .collect();
                out.extend_from_slice(quoted(&text).as_bytes());
            }
        }
    }
}

fn quoted(text: &str) -> String {
    String::from_utf8(go_json::to_vec(text)).unwrap_or_default()
}

/// The cells of one object, and what its row says besides. Worth keeping with
/// the object: only ages change between answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub cells: Vec<Cell>,
    /// `metav1.TableRowCondition`s as JSON; empty for none.
    pub conditions: &'static str,
}

impl Row {
    pub fn new(cells: Vec<Cell>) -> Self {
        Self {
            cells,
            conditions: "",
        }
    }

    /// The row around an object that is already written, or `null`.
    pub fn write(&self, now: DateTime<Utc>, object: &[&[u8]], out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"cells\":[");
        for (i, cell) in self.cells.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            cell.write(now, out);
        }
        out.push(b']');
        if !self.conditions.is_empty() {
            out.extend_from_slice(b",\"conditions\":");
            out.extend_from_slice(self.conditions.as_bytes());
        }
        out.extend_from_slice(b",\"object\":");
        for part in object {
            out.extend_from_slice(part);
        }
        out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_written_at_answer_time() {
        let moment = Moment::parse("2026-11-21T03:00:00Z").unwrap().unwrap();
        let row = Row::new(vec![
            Cell::text("a<b"),
            Cell::integer(3),
            Cell::age(None),
            Cell::age(Some(moment)),
            Cell::Mixed(Box::new([
                Piece::Text("3 (".into()),
                Piece::Age(moment),
                Piece::Text(" ago)".into()),
            ])),
            Cell::null(),
        ]);
        let mut out = Vec::new();
        row.write(
            moment.0 + chrono::TimeDelta::minutes(5),
            &[b"null"],
            &mut out,
        );
        assert_eq!(
            String::from_utf8(out).unwrap(),
            r#"{"cells":["a\u003cb",3,"\u003cunknown\u003e","5m","3 (5m ago)",null],"object":null}"#
        );
    }
}
