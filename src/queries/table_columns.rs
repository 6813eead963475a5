//! The columns that a Table of the resource has. A query without columns shows them.

use std::sync::Arc;

use apifront_query::{Column, Row};
use apifront_watch_cache::store::Store;
use bytes::Bytes;
use chrono::Utc;
use kubernetes_wire::negotiation::{IncludeObject, MetaVersion};
use kubernetes_wire::representation::table::{NotPrintable, Printer, TableOptions};
use kubernetes_wire::representation::{Envelope, ListMeta};
use serde::Deserialize;
use serde_json::Value;

use super::object::QueriedObject;

const OPTIONS: TableOptions = TableOptions {
    version: MetaVersion::V1,
    include: IncludeObject::None,
};

/// The columns of this priority are those that `kubectl get` prints.
const SHOWN_PRIORITY: i32 = 0;

/// The number of objects of which the whole JSON is made at a time.
const PRINTED_AT_ONCE: usize = 16;

pub(super) struct TableColumns {
    printer: Arc<Printer>,
    envelope: Arc<Envelope>,
    columns: Vec<Definition>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Table {
    column_definitions: Vec<Definition>,
    rows: Option<Vec<TableRow>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Definition {
    name: String,
    priority: i32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TableRow {
    cells: Vec<Value>,
}

impl TableColumns {
    /// Returns `None` if it is not known how upstream prints the resource.
    pub(super) fn new(store: &Store) -> Option<Self> {
        let mut columns = Self {
            printer: store.presentation().printer.clone()?,
            envelope: Arc::new(store.resource.envelope.clone()),
            columns: Vec::new(),
        };
        columns.columns = columns.print(&[]).ok()?.column_definitions;
        Some(columns)
    }

    pub(super) fn envelope(&self) -> &Arc<Envelope> {
        &self.envelope
    }

    pub(super) fn columns(&self) -> Vec<Column> {
        let shown = self.columns.iter();
        let shown = shown.filter(|column| column.priority == SHOWN_PRIORITY);
        let column = |column: &Definition| Column {
            name: column.name.clone(),
            ..Column::default()
        };
        shown.map(column).collect()
    }

    /// Adds the cells of these objects to their rows. Fails if one cannot be printed.
    pub(super) fn fill(
        &self,
        objects: &[&QueriedObject],
        rows: &mut [Row],
    ) -> Result<(), NotPrintable> {
        // Some printers have an order of their own.
        let at_once = match self.printer.arranges() {
            true => 1,
            false => PRINTED_AT_ONCE,
        };
        for (objects, rows) in objects.chunks(at_once).zip(rows.chunks_mut(at_once)) {
            let items = objects.iter();
            let items = items.map(|queried| queried.object.json(&self.envelope));
            let items: Option<Vec<Bytes>> = items.collect();
            let printed = self.print(&items.ok_or(NotPrintable)?)?;
            let printed = printed.rows.unwrap_or_default();
            if printed.len() != rows.len() {
                return Err(NotPrintable);
            }
            for (row, printed) in rows.iter_mut().zip(printed) {
                let cells = printed.cells.into_iter().zip(&self.columns);
                let shown = cells.filter(|(_, column)| column.priority == SHOWN_PRIORITY);
                row.cells = shown.map(|(cell, _)| cell).collect();
            }
        }
        Ok(())
    }

    fn print(&self, items: &[Bytes]) -> Result<Table, NotPrintable> {
        let meta = ListMeta::at(0);
        let (envelope, now) = (&self.envelope, Utc::now());
        let table = self
            .printer
            .list(&meta, items.iter(), envelope, OPTIONS, now)?;
        serde_json::from_slice(&table).map_err(|_| NotPrintable)
    }
}
