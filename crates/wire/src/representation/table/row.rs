//! A row of a Table: cells, of which some tell an age.

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
}

fn quoted(text: &str) -> String {
    String::from_utf8(go_json::to_vec(text)).unwrap_or_default()
}

/// The cells of one object, and what its row says besides.
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
}
