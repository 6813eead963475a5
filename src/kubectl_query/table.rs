//! Rows and counts in aligned columns.

use apifront_query::{Column, Count, Row};

use super::text::{of_value, printable};

/// The space between two columns.
const GAP: &str = "  ";

/// The widths of columns. Lines are aligned with all that were fitted before.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    widths: Vec<usize>,
}

impl Table {
    pub(super) fn fit(&mut self, cells: &[String]) {
        if self.widths.len() < cells.len() {
            self.widths.resize(cells.len(), 0);
        }
        for (width, cell) in self.widths.iter_mut().zip(cells) {
            *width = (*width).max(cell.chars().count());
        }
    }

    /// Returns a line without the space at its end.
    pub(super) fn line(&self, cells: &[String]) -> String {
        let mut line = String::new();
        for (index, cell) in cells.iter().enumerate() {
            if index > 0 {
                line.push_str(GAP);
            }
            let width = self.widths.get(index).copied().unwrap_or_default();
            line.push_str(&format!("{cell:width$}"));
        }
        line.truncate(line.trim_end().len());
        line
    }

    /// Returns aligned lines.
    pub(super) fn lines(&mut self, all: &[Vec<String>]) -> Vec<String> {
        for cells in all {
            self.fit(cells);
        }
        all.iter().map(|cells| self.line(cells)).collect()
    }
}

pub(super) fn header(columns: &[Column]) -> Vec<String> {
    let names = columns.iter().map(|column| printable(&column.name).into());
    std::iter::once("NAME".to_owned()).chain(names).collect()
}

pub(super) fn of_row(row: &Row) -> Vec<String> {
    let name = match row.namespace.is_empty() {
        true => row.name.clone(),
        false => format!("{}/{}", row.namespace, row.name),
    };
    let name = printable(&name).into_owned();
    std::iter::once(name)
        .chain(row.cells.iter().map(of_value))
        .collect()
}

pub(super) fn of_count(count: &Count) -> Vec<String> {
    std::iter::once(count.count.to_string())
        .chain(count.values.iter().map(of_value))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn row(namespace: &str, name: &str, cells: Value) -> Row {
        serde_json::from_value(json!({ "namespace": namespace, "name": name, "cells": cells }))
            .unwrap()
    }

    #[test]
    fn columns_are_aligned() {
        let column = |name: &str| Column {
            name: name.to_owned(),
            ..Column::default()
        };
        let mut table = Table::default();
        let lines = table.lines(&[
            header(&[column("node"), column("n")]),
            of_row(&row("a", "web", json!(["nöde", 3]))),
            of_row(&row("", "b", json!([null]))),
        ]);
        let expected = ["NAME   node    n", "a/web  nöde    3", "b      <none>"];
        assert_eq!(lines, expected);
        assert_eq!(
            table.line(&["longer than all".into(), "x".into()]),
            "longer than all  x"
        );
        let count = json!({ "count": 12, "values": ["Running", null] });
        let count = of_count(&serde_json::from_value(count).unwrap());
        assert_eq!(Table::default().lines(&[count]), ["12  Running  <none>"]);
    }
}
