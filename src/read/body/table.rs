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
    printer
        .single(&object.item(), &resource.envelope, options, Utc::now())
        .map(Bytes::from)
}

pub(super) fn list(
    resource: &Resource,
    page: &Page<'_>,
    printer: &Printer,
    options: TableOptions,
) -> Result<Vec<Bytes>, NotPrintable> {
    let items: Vec<_> = page.objects().map(|o| o.item()).collect();
    let envelope = &resource.envelope;
    let table = printer.list(&page.meta, items.iter(), envelope, options, Utc::now())?;
    Ok(vec![table.into()])
}
