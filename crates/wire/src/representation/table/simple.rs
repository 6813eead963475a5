//! Kinds whose rows show a few fields unchanged.

use super::NotPrintable;
use super::core::{age, name};
use super::row::{Cell, Row};
use crate::representation::scan;

const DEFAULT_ATTRIBUTES_ANNOTATION: &str =
    "volumeattributesclass.alpha.kubernetes.io/is-default-class";

pub(crate) fn print_runtime_class(object: &[u8]) -> Result<Row, NotPrintable> {
    Ok(Row::new(vec![
        name(object)?,
        text(object, &["handler"])?,
        age(object)?,
    ]))
}

pub(crate) fn print_volume_attributes_class(object: &[u8]) -> Result<Row, NotPrintable> {
    Ok(Row::new(vec![
        name(object)?,
        text(object, &["driverName"])?,
        age(object)?,
    ]))
}

/// Prints a volume attributes class as releases before 1.34 do, which mark the
/// default class.
pub(super) fn print_volume_attributes_class_before_1_34(
    object: &[u8],
) -> Result<Row, NotPrintable> {
    let annotation = ["metadata", "annotations", DEFAULT_ATTRIBUTES_ANNOTATION];
    let mut row = print_volume_attributes_class(object)?;
    if scan::get(object, &annotation) == Some(b"\"true\"") {
        let name = scan::text_at(object, &["metadata", "name"]).unwrap_or_default();
        if let Some(cell) = row.cells.first_mut() {
            *cell = Cell::text(&format!("{name} (default)"));
        }
    }
    Ok(row)
}

pub(crate) fn print_volume_attachment(object: &[u8]) -> Result<Row, NotPrintable> {
    let attached = scan::get(object, &["status", "attached"]) == Some(b"true");
    Ok(Row::new(vec![
        name(object)?,
        text(object, &["spec", "attacher"])?,
        text(object, &["spec", "source", "persistentVolumeName"])?,
        text(object, &["spec", "nodeName"])?,
        Cell::boolean(attached),
        age(object)?,
    ]))
}

pub(crate) fn print_csi_node(object: &[u8]) -> Result<Row, NotPrintable> {
    Ok(Row::new(vec![
        name(object)?,
        count(object, &["spec", "drivers"])?,
        age(object)?,
    ]))
}

pub(crate) fn print_lease_candidate(object: &[u8]) -> Result<Row, NotPrintable> {
    Ok(Row::new(vec![
        name(object)?,
        text(object, &["spec", "leaseName"])?,
        text(object, &["spec", "binaryVersion"])?,
        text(object, &["spec", "emulationVersion"])?,
        age(object)?,
    ]))
}

pub(crate) fn print_cluster_trust_bundle(object: &[u8]) -> Result<Row, NotPrintable> {
    let signer = string(object, &["spec", "signerName"])?;
    let signer = if signer.is_empty() { "<none>" } else { &signer };
    Ok(Row::new(vec![name(object)?, Cell::text(signer)]))
}

pub(crate) fn print_resource_slice(object: &[u8]) -> Result<Row, NotPrintable> {
    Ok(Row::new(vec![
        name(object)?,
        text(object, &["spec", "nodeName"])?,
        text(object, &["spec", "driver"])?,
        text(object, &["spec", "pool", "name"])?,
        age(object)?,
    ]))
}

pub(crate) fn print_service_cidr(object: &[u8]) -> Result<Row, NotPrintable> {
    let mut cidrs = Vec::new();
    for cidr in elements(object, &["spec", "cidrs"])? {
        cidrs.push(scan::text(cidr).ok_or(NotPrintable)?.into_owned());
    }
    Ok(Row::new(vec![
        name(object)?,
        Cell::text(&cidrs.join(",")),
        age(object)?,
    ]))
}

pub(crate) fn print_webhook_configuration(object: &[u8]) -> Result<Row, NotPrintable> {
    Ok(Row::new(vec![
        name(object)?,
        count(object, &["webhooks"])?,
        age(object)?,
    ]))
}

fn string(object: &[u8], path: &[&str]) -> Result<String, NotPrintable> {
    match scan::get(object, path) {
        None | Some(b"null") => Ok(String::new()),
        Some(json) => Ok(scan::text(json).ok_or(NotPrintable)?.into_owned()),
    }
}

fn text(object: &[u8], path: &[&str]) -> Result<Cell, NotPrintable> {
    string(object, path).map(|text| Cell::text(&text))
}

fn elements<'a>(object: &'a [u8], path: &[&str]) -> Result<Vec<&'a [u8]>, NotPrintable> {
    match scan::get(object, path) {
        None | Some(b"null") => Ok(Vec::new()),
        Some(json) => scan::elements(json)
            .map(|element| element.map(|(_, json)| json).map_err(|_| NotPrintable))
            .collect(),
    }
}

fn count(object: &[u8], path: &[&str]) -> Result<Cell, NotPrintable> {
    let count = elements(object, path)?.len();
    Ok(Cell::integer(
        i64::try_from(count).map_err(|_| NotPrintable)?,
    ))
}
