//! A row of a Table. Some of its cells show ages.

use super::age::Moment;
use crate::api::go_json;

/// A part of a cell with ages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    Age(Moment),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// JSON without ages.
    Fixed(Box<str>),
    Age(Moment),
    /// Text with ages in it, such as `3 (5m ago)`.
    Mixed(Box<[Piece]>),
}

impl Cell {
    pub(crate) fn text(text: &str) -> Self {
        Self::Fixed(quoted(text).into())
    }

    pub(crate) fn integer(value: i64) -> Self {
        Self::Fixed(value.to_string().into())
    }

    pub(crate) fn boolean(value: bool) -> Self {
        Self::Fixed(value.to_string().into())
    }

    pub(crate) fn null() -> Self {
        Self::Fixed("null".into())
    }

    /// Makes a cell with the age of an optional time.
    pub(crate) fn age(moment: Option<Moment>) -> Self {
        moment.map_or_else(|| Self::text("<unknown>"), Self::Age)
    }
}

fn quoted(text: &str) -> String {
    String::from_utf8(go_json::to_vec(text)).unwrap_or_default()
}

/// The cells of one object, and its row conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub(crate) cells: Vec<Cell>,
    /// `metav1.TableRowCondition`s as JSON. Empty if there are none.
    pub(crate) conditions: &'static str,
}

impl Row {
    pub(crate) fn new(cells: Vec<Cell>) -> Self {
        Self {
            cells,
            conditions: "",
        }
    }
}
