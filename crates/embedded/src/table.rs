//! Two more representations of objects: rows of a Table and PartialObjectMetadata.

use std::sync::Arc;

use bytes::Bytes;
use chrono::Utc;
use kubernetes_wire::{
    negotiation::{IncludeObject, MetaVersion},
    representation::{ListMeta, NotPrintable, Printer, TableOptions, partial_object_metadata},
};

use super::{
    registry::Resource,
    storage::Stored,
    view::{envelope, item},
};

/// Returns the printer of a resource. Kinds without their own printer show name
/// and age.
fn printer(resource: &Resource) -> &Printer {
    resource
        .custom
        .as_ref()
        .and_then(|custom| custom.printer.as_ref())
        .or_else(|| Printer::builtin(&resource.gvr))
        .unwrap_or_else(|| Printer::default_columns())
}

pub(crate) fn list(
    resource: &Resource,
    items: &[Arc<Stored>],
    meta: &ListMeta,
    options: TableOptions,
) -> Result<Vec<u8>, NotPrintable> {
    let fragments: Vec<Bytes> = items.iter().map(|stored| item(resource, stored)).collect();
    printer(resource).list(
        meta,
        fragments.iter(),
        &envelope(resource),
        options,
        Utc::now(),
    )
}

/// Returns the Table of one object, which is whole or a list item.
pub(crate) fn single(
    resource: &Resource,
    object: &Bytes,
    options: TableOptions,
) -> Result<Vec<u8>, NotPrintable> {
    printer(resource).single(object, &envelope(resource), options, Utc::now())
}

/// Returns the Table in a watch event. Only the `first` one has the columns.
pub(crate) fn event(
    resource: &Resource,
    object: &Bytes,
    version: MetaVersion,
    include: IncludeObject,
    first: bool,
) -> Option<Bytes> {
    let options = TableOptions { version, include };
    printer(resource)
        .event_object(object, &envelope(resource), options, first, Utc::now())
        .ok()
        .map(Bytes::from)
}

pub(crate) fn metadata(resource: &Resource, object: &Bytes, version: MetaVersion) -> Option<Bytes> {
    partial_object_metadata::object(object, &envelope(resource), version)
}

pub(crate) fn metadata_list(
    resource: &Resource,
    items: &[Arc<Stored>],
    meta: &ListMeta,
    version: MetaVersion,
) -> Option<Vec<u8>> {
    let envelope = envelope(resource);
    let mut out = partial_object_metadata::list_prefix(meta, version, items.is_empty()).to_vec();
    for (i, stored) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&partial_object_metadata::object(
            &item(resource, stored),
            &envelope,
            version,
        )?);
    }
    out.extend_from_slice(&partial_object_metadata::list_suffix(items.is_empty()));
    Some(out)
}
