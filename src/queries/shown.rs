//! What the rows of a query show: its own columns, or those of a Table.

use std::sync::Arc;

use apifront_query::{Answer, Column, Failed, Plan, Row, rows};
use apifront_watch_cache::store::{Snapshot, Store};

use super::object::QueriedObject;
use super::table_columns::TableColumns;

/// The most bytes of the cells of a Table's columns.
const MAX_CELL_BYTES: usize = 16 << 20;

const NOT_PRINTABLE: &str =
    "spec.columns: it is not known how a Table shows these objects: name columns";

pub struct Shown {
    plan: Arc<Plan>,
    /// `None` if the query has columns, or if nothing is known of Tables.
    table: Option<TableColumns>,
}

impl Shown {
    pub fn new(plan: Arc<Plan>, store: &Store) -> Self {
        let table = match plan.has_columns() {
            true => None,
            false => TableColumns::new(store),
        };
        Self { plan, table }
    }

    pub fn columns(&self) -> Vec<Column> {
        match &self.table {
            Some(table) => table.columns(),
            None => self.plan.columns().cloned().collect(),
        }
    }

    /// Returns the rows of these objects.
    pub fn rows(&self, objects: &[&QueriedObject]) -> Result<Vec<Row>, Failed> {
        let mut rows = rows(&self.plan, objects.iter().copied())?;
        if let Some(table) = &self.table {
            // Objects that cannot be printed have no cells.
            let _ = table.fill(objects, &mut rows);
            check_length(&rows)?;
        }
        Ok(rows)
    }

    /// Adds the cells of a Table to an answer, whose rows are of this state.
    pub fn complete(&self, answer: &mut Answer, snapshot: &Snapshot) -> Result<(), Failed> {
        if self.plan.has_columns() || answer.rows.is_empty() {
            return Ok(());
        }
        let filled = self.table.as_ref().is_some_and(|table| {
            let rows = answer.rows.iter();
            let objects = rows.map(|row| {
                let object = snapshot.get(&row.namespace, &row.name)?.clone();
                let envelope = table.envelope().clone();
                Some(QueriedObject { object, envelope })
            });
            let objects: Option<Vec<QueriedObject>> = objects.collect();
            objects.is_some_and(|objects| {
                let objects: Vec<&QueriedObject> = objects.iter().collect();
                table.fill(&objects, &mut answer.rows).is_ok()
            })
        });
        if !filled {
            answer.warnings.push(NOT_PRINTABLE.to_owned());
        }
        check_length(&answer.rows)
    }
}

fn check_length(rows: &[Row]) -> Result<(), Failed> {
    let cells = rows.iter().flat_map(|row| &row.cells);
    let lengths = cells.map(|cell| cell.as_str().map_or(0, str::len));
    match lengths.sum::<usize>() > MAX_CELL_BYTES {
        true => Err(Failed::TooLong),
        false => Ok(()),
    }
}
