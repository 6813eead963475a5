//! `as=Table`.

use bytes::Bytes;
use chrono::Utc;

use crate::read::Page;
use crate::representation::table::{NotPrintable, Printer, TableOptions};
use crate::store::{Resource, StoredObject};

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
    let items = page.objects().map(|o| o.json(envelope));
    let items = items.collect::<Option<Vec<_>>>().ok_or(NotPrintable)?;
    let table = printer.list(&page.meta, items.iter(), envelope, options, Utc::now())?;
    Ok(vec![table.into()])
}
