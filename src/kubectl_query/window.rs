//! The window of a watch: the page of rows that it shows, and the counts.

use apifront_query::{Column, Count, QueryStatus, Row, RowChange};
use serde::Deserialize;

/// The most rows. A page has at most 1,000, and between two changes of one update there may
/// be as many that come as go.
const MAX_ROWS: usize = 2_000;

/// The status of an update: what is different since the one before.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Update {
    pub(super) resource_version: String,
    pub(super) total: u64,
    /// `None` if they are as before.
    pub(super) counts: Option<Vec<Count>>,
    pub(super) changes: Vec<RowChange>,
}

/// What a change did to which row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Changed {
    pub(super) mark: Mark,
    pub(super) row: Row,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Added,
    Removed,
    Moved,
    Changed,
}

/// What an update did.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    pub(super) rows: Vec<Changed>,
    /// The counts that are new or different. The number of one that is gone is 0.
    pub(super) counts: Vec<Count>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WrongChange {
    #[error("a change is about row {index} of {rows}")]
    Outside { index: usize, rows: usize },
    #[error("a window has more than {MAX_ROWS} rows")]
    TooManyRows,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    pub(super) resource_version: String,
    pub(super) total: u64,
    pub(super) columns: Vec<Column>,
    /// Whether the first cell of a row is the name, as in a Table. It is taken out: names
    /// are shown anyway.
    pub(super) has_names: bool,
    pub(super) rows: Vec<Row>,
    pub(super) counts: Vec<Count>,
    pub(super) warnings: Vec<String>,
}

impl From<QueryStatus> for Window {
    fn from(status: QueryStatus) -> Self {
        let mut columns = status.columns;
        let is_of_table = |column: &Column| column.expression.is_empty();
        if columns.iter().all(is_of_table) {
            // As kubectl prints them.
            for column in &mut columns {
                column.name = column.name.to_uppercase();
            }
        }
        let has_names = columns
            .first()
            .is_some_and(|first| is_of_table(first) && first.name == "NAME");
        if has_names {
            columns.remove(0);
        }
        let mut window = Self {
            resource_version: status.resource_version,
            total: status.total,
            columns,
            has_names,
            rows: status.rows,
            counts: status.counts,
            warnings: status.warnings,
        };
        let mut rows = std::mem::take(&mut window.rows);
        rows.iter_mut().for_each(|row| window.take_name(row));
        window.rows = rows;
        window
    }
}

impl Window {
    pub(super) fn update(&mut self, update: Update) -> Result<Changes, WrongChange> {
        let mut rows = Vec::with_capacity(update.changes.len());
        for mut change in update.changes {
            if let RowChange::Added { row, .. } | RowChange::Changed { row, .. } = &mut change {
                self.take_name(row);
            }
            rows.push(self.apply(change)?);
        }
        self.resource_version = update.resource_version;
        self.total = update.total;
        // Without objects there is nothing to count.
        let counts = match update.total {
            0 => Some(Vec::new()),
            _ => update.counts,
        };
        let counts = counts.map_or_else(Vec::new, |counts| {
            let before = std::mem::replace(&mut self.counts, counts);
            recounted(&before, &self.counts)
        });
        Ok(Changes { rows, counts })
    }

    fn take_name(&self, row: &mut Row) {
        if self.has_names && !row.cells.is_empty() {
            row.cells.remove(0);
        }
    }

    fn apply(&mut self, change: RowChange) -> Result<Changed, WrongChange> {
        let (mark, row) = match change {
            RowChange::Added { index, row } => {
                self.insert(index, row.clone())?;
                (Mark::Added, row)
            }
            RowChange::Removed { index } => (Mark::Removed, self.remove(index)?),
            RowChange::Moved { from, index } => {
                let row = self.remove(from)?;
                self.insert(index, row.clone())?;
                (Mark::Moved, row)
            }
            RowChange::Changed { index, row } => {
                let rows = self.rows.len();
                let place = self.rows.get_mut(index);
                *place.ok_or(WrongChange::Outside { index, rows })? = row.clone();
                (Mark::Changed, row)
            }
        };
        Ok(Changed { mark, row })
    }

    fn insert(&mut self, index: usize, row: Row) -> Result<(), WrongChange> {
        let rows = self.rows.len();
        if index > rows {
            return Err(WrongChange::Outside { index, rows });
        }
        if rows >= MAX_ROWS {
            return Err(WrongChange::TooManyRows);
        }
        self.rows.insert(index, row);
        Ok(())
    }

    fn remove(&mut self, index: usize) -> Result<Row, WrongChange> {
        let rows = self.rows.len();
        if index >= rows {
            return Err(WrongChange::Outside { index, rows });
        }
        Ok(self.rows.remove(index))
    }

    /// Puts another window in this one's place, which the server gives after it ended a
    /// stream, and returns what is different.
    pub(super) fn replace(&mut self, other: Self) -> Result<Changes, WrongChange> {
        let mut rows = Vec::new();
        let gone = self.rows.iter().enumerate().rev();
        let gone = gone.filter(|(_, row)| !other.rows.iter().any(|kept| is_same(kept, row)));
        let gone: Vec<usize> = gone.map(|(index, _)| index).collect();
        for index in gone {
            rows.push(self.apply(RowChange::Removed { index })?);
        }
        for (index, row) in other.rows.iter().enumerate() {
            let from = self.rows.iter().position(|own| is_same(own, row));
            match from {
                None => {
                    let row = row.clone();
                    rows.push(self.apply(RowChange::Added { index, row })?);
                    continue;
                }
                Some(from) if from != index => {
                    rows.push(self.apply(RowChange::Moved { from, index })?);
                }
                Some(_) => {}
            }
            if self.rows.get(index) != Some(row) {
                let row = row.clone();
                rows.push(self.apply(RowChange::Changed { index, row })?);
            }
        }
        let counts = recounted(&self.counts, &other.counts);
        *self = other;
        Ok(Changes { rows, counts })
    }
}

/// Tells whether two rows are about the same object.
fn is_same(a: &Row, b: &Row) -> bool {
    (&a.namespace, &a.name, &a.uid) == (&b.namespace, &b.name, &b.uid)
}

/// Returns the counts that are new, different or gone.
fn recounted(before: &[Count], after: &[Count]) -> Vec<Count> {
    let changed = after.iter().filter(|count| !before.contains(count));
    let gone = before
        .iter()
        .filter(|count| !after.iter().any(|other| other.values == count.values));
    let gone = gone.map(|count| Count {
        count: 0,
        ..count.clone()
    });
    changed.cloned().chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn row(name: &str, cell: i64) -> Row {
        Row {
            namespace: "a".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            cells: vec![json!(cell)],
        }
    }

    #[test]
    fn names_of_a_table_are_not_shown_twice() {
        let of = |name: &str, cells: Value| {
            let row = json!({ "namespace": "a", "name": name, "cells": cells });
            serde_json::from_value::<Row>(row).unwrap()
        };
        let status = json!({
            "columns": [{ "name": "Name" }, { "name": "Age" }],
            "rows": [of("x", json!(["x", "1d"])), of("y", json!([]))],
        });
        let mut window = Window::from(serde_json::from_value::<QueryStatus>(status).unwrap());
        assert_eq!(window.columns.len(), 1);
        assert_eq!(window.columns[0].name, "AGE");
        assert_eq!(window.rows[0].cells, [json!("1d")]);
        assert!(window.rows[1].cells.is_empty());
        let row = of("z", json!(["z", "2d"]));
        let update = Update {
            total: 3,
            changes: vec![RowChange::Added { index: 2, row }],
            ..Update::default()
        };
        let changes = window.update(update).unwrap();
        assert_eq!(changes.rows[0].row.cells, [json!("2d")]);
        let again = window.clone();
        assert_eq!(window.replace(again), Ok(Changes::default()));
    }

    fn count(value: &str, count: u64) -> Count {
        let values = vec![json!(value)];
        Count { values, count }
    }

    fn window(names: &str) -> Window {
        Window {
            rows: names
                .chars()
                .map(|name| row(&name.to_string(), 0))
                .collect(),
            ..Window::default()
        }
    }

    fn names(window: &Window) -> String {
        window.rows.iter().map(|row| row.name.as_str()).collect()
    }

    fn update(status: Value) -> Update {
        serde_json::from_value(status).unwrap()
    }

    fn of_changes(changes: Value) -> Update {
        update(json!({ "resourceVersion": "2", "total": 9, "changes": changes }))
    }

    #[test]
    fn changes_are_applied_in_their_order() {
        let mut window = window("abcd");
        let changes = window
            .update(of_changes(json!([
                { "type": "Removed", "index": 1 },
                { "type": "Added", "index": 0, "row": row("x", 1) },
                { "type": "Moved", "from": 3, "index": 1 },
                { "type": "Changed", "index": 2, "row": row("a", 7) },
                { "type": "Added", "index": 4, "row": row("y", 1) },
                { "type": "Moved", "from": 0, "index": 4 },
            ])))
            .unwrap();
        assert_eq!(names(&window), "dacyx");
        assert_eq!(window.rows[1], row("a", 7));
        assert_eq!((window.resource_version.as_str(), window.total), ("2", 9));
        let marks: Vec<(Mark, &str)> = changes
            .rows
            .iter()
            .map(|changed| (changed.mark, changed.row.name.as_str()))
            .collect();
        let expected = [
            (Mark::Removed, "b"),
            (Mark::Added, "x"),
            (Mark::Moved, "d"),
            (Mark::Changed, "a"),
            (Mark::Added, "y"),
            (Mark::Moved, "x"),
        ];
        assert_eq!(marks, expected);
    }

    #[test]
    fn indexes_outside_are_errors() {
        for (change, index, rows) in [
            (json!({ "type": "Removed", "index": 2 }), 2, 2),
            (
                json!({ "type": "Added", "index": 3, "row": row("x", 1) }),
                3,
                2,
            ),
            (
                json!({ "type": "Changed", "index": 2, "row": row("x", 1) }),
                2,
                2,
            ),
            (json!({ "type": "Moved", "from": 2, "index": 0 }), 2, 2),
            // The row has left its place before it gets the other.
            (json!({ "type": "Moved", "from": 0, "index": 2 }), 2, 1),
            (
                json!({ "type": "Removed", "index": u64::MAX }),
                usize::MAX,
                2,
            ),
        ] {
            let error = window("ab").update(of_changes(json!([change])));
            assert_eq!(error, Err(WrongChange::Outside { index, rows }), "{change}");
        }
        for change in [
            json!({ "type": "Removed", "index": -1 }),
            json!({ "type": "Removed", "index": 1.5 }),
            json!({ "type": "Removed" }),
            json!({ "type": "Added", "index": 0 }),
            json!({ "type": "Vanished", "index": 0 }),
        ] {
            assert!(
                serde_json::from_value::<RowChange>(change.clone()).is_err(),
                "{change}"
            );
        }
    }

    #[test]
    fn a_window_has_a_bound() {
        let mut full = Window {
            rows: vec![row("a", 0); MAX_ROWS],
            ..Window::default()
        };
        let one_more = json!([{ "type": "Added", "index": 0, "row": row("x", 1) }]);
        let error = full.update(of_changes(one_more));
        assert_eq!(error, Err(WrongChange::TooManyRows));
    }

    #[test]
    fn counts_stay_unless_they_are_told() {
        let mut window = window("a");
        window.counts = vec![count("x", 1), count("y", 2), count("z", 1)];
        let none = window.update(of_changes(json!([]))).unwrap();
        assert_eq!(none, Changes::default());
        let counts = json!([count("x", 1), count("y", 3)]);
        let status = json!({ "resourceVersion": "3", "total": 4, "counts": counts });
        let changes = window.update(update(status)).unwrap();
        assert_eq!(changes.counts, [count("y", 3), count("z", 0)]);
        assert_eq!(window.counts, [count("x", 1), count("y", 3)]);
        let empty = update(json!({ "resourceVersion": "4", "total": 0 }));
        let changes = window.update(empty).unwrap();
        assert_eq!(changes.counts, [count("x", 0), count("y", 0)]);
        assert!(window.counts.is_empty());
    }

    #[test]
    fn a_new_window_is_told_by_its_differences() {
        for (before, after) in [
            ("", ""),
            ("abc", "abc"),
            ("abc", "cab"),
            ("abcdef", "fxbdya"),
            ("abc", ""),
            ("", "abc"),
            ("abc", "xyz"),
        ] {
            let mut shown = window(before);
            let mut other = window(after);
            for row in other.rows.iter_mut().filter(|row| row.name == "b") {
                *row = self::row("b", 5);
            }
            other.total = 3;
            let expected = other.rows.clone();
            let changes = shown.replace(other).unwrap();
            assert_eq!(shown.rows, expected, "{before} to {after}");
            assert_eq!(shown.total, 3);
            let changed = changes.rows.iter().filter(|c| c.mark == Mark::Changed);
            let is_kept = before.contains('b') && after.contains('b');
            assert_eq!(changed.count(), usize::from(is_kept), "{before} to {after}");
            if before == after && !is_kept {
                assert!(changes.rows.is_empty());
            }
        }
        let mut shown = window("abc");
        let moved = shown.replace(window("cab")).unwrap().rows;
        assert_eq!(moved.len(), 1, "one row moved: {moved:?}");
    }
}
