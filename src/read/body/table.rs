//! `as=Table`. Rows are printed once per leaf and version; an answer fills in
//! their ages and puts the objects' metadata behind them.

use std::sync::Arc;

use bytes::Bytes;
use chrono::Utc;

use super::partial::Metadatas;
use super::pieces::Pieces;
use crate::negotiation::IncludeObject;
use crate::read::Page;
use crate::representation::Envelope;
use crate::representation::table::{
    Cells, NotPrintable, Printed, Printer, RowWriter, TableOptions,
};
use crate::store::{Derived, Leaf, Part, Resource, StoredObject};

pub(super) fn single(
    resource: &Resource,
    object: &StoredObject,
    printer: &Printer,
    options: TableOptions,
) -> Result<Bytes, NotPrintable> {
    let item = object.json(&resource.envelope).ok_or(NotPrintable)?;
    printer
        .single(&item, &resource.envelope, options, Utc::now())
        .map(Bytes::from)
}

pub(super) fn list(
    resource: &Resource,
    page: &Page<'_>,
    printer: &Printer,
    options: TableOptions,
) -> Result<Vec<Bytes>, NotPrintable> {
    let envelope = &resource.envelope;
    let json = |object: &StoredObject| object.json(envelope).ok_or(NotPrintable);
    let empty = page.is_empty();
    let rows = RowWriter::new(envelope, options, Utc::now());
    let mut pieces = Pieces::new(page.objects().map(|o| o.size()).sum());
    pieces.push(&printer.list_prefix(&page.meta, options.version, empty));
    if printer.sorts() {
        let items = page.objects().map(|object| object.item()).collect();
        for item in printer.sort(items)? {
            pieces.next_item();
            rows.print(printer.cells(), &item, |text| pieces.push(text))?;
        }
        pieces.push(printer.list_suffix(empty));
        return Ok(pieces.finish());
    }
    for part in &page.parts {
        match part {
            Part::Object(object) => {
                pieces.next_item();
                rows.print(printer.cells(), &json(object)?, |text| pieces.push(text))?;
            }
            Part::Leaf(leaf) => {
                let metadatas = match options.include {
                    IncludeObject::Metadata => {
                        Some(Metadatas::of(leaf, resource).ok_or(NotPrintable)?)
                    }
                    IncludeObject::None | IncludeObject::Object => None,
                };
                let printed = Rows::of(leaf, printer.cells(), envelope)?;
                for (i, (object, row)) in leaf.objects().iter().zip(printed.rows()).enumerate() {
                    let metadata = metadatas.as_ref().and_then(|all| all.get(i));
                    let item = match metadata {
                        Some(metadata) => object.json_of(metadata, envelope).ok_or(NotPrintable)?,
                        None if rows.needs_object(&row) => json(object)?,
                        None => Bytes::new(),
                    };
                    pieces.next_item();
                    rows.write(row, &item, metadata, |text| pieces.push(text))?;
                }
            }
        }
    }
    pieces.push(printer.list_suffix(empty));
    Ok(pieces.finish())
}

/// The rows of a leaf's objects.
struct Rows {
    cells: Arc<Cells>,
    printed: Result<Arc<Printed>, NotPrintable>,
}

impl Derived for Rows {
    fn size(&self) -> usize {
        let printed = self.printed.as_ref().map_or(0, |printed| printed.size());
        size_of::<Self>() + printed
    }
}

impl Rows {
    fn of(
        leaf: &Leaf,
        cells: &Arc<Cells>,
        envelope: &Envelope,
    ) -> Result<Arc<Printed>, NotPrintable> {
        let print = || {
            let items = leaf.objects().iter().map(|object| object.json(envelope));
            cells.rows(items).map(Arc::new)
        };
        let kept = leaf.derived(|_| {
            Some(Self {
                cells: cells.clone(),
                printed: print(),
            })
        });
        match kept {
            Some(rows) if rows.cells.are(cells) => rows.printed.clone(),
            // A changed definition prints other columns of the same objects.
            _ => print(),
        }
    }
}
