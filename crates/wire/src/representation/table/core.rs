//! Namespaces, config maps, secrets, service accounts, and kinds without a
//! printer: a name, an age, and few other cells.

use super::NotPrintable;
use super::age::Moment;
use super::row::{Cell, Row};
use crate::representation::scan;

pub(crate) fn print_namespace(object: &[u8]) -> Result<Row, NotPrintable> {
    let phase = scan::text_at(object, &["status", "phase"]).unwrap_or_default();
    Ok(Row::new(vec![
        name(object)?,
        Cell::text(&phase),
        age(object)?,
    ]))
}

pub(crate) fn print_config_map(object: &[u8]) -> Result<Row, NotPrintable> {
    let count = keys(object, "data")?.saturating_add(keys(object, "binaryData")?);
    Ok(Row::new(vec![
        name(object)?,
        Cell::integer(count),
        age(object)?,
    ]))
}

pub(crate) fn print_secret(object: &[u8]) -> Result<Row, NotPrintable> {
    let kind = scan::text_at(object, &["type"]).unwrap_or_default();
    Ok(Row::new(vec![
        name(object)?,
        Cell::text(&kind),
        Cell::integer(keys(object, "data")?),
        age(object)?,
    ]))
}

/// Prints a service account as releases before 1.35 do, which count its secrets.
pub(crate) fn print_service_account_before_1_35(object: &[u8]) -> Result<Row, NotPrintable> {
    let mut count = 0i64;
    if let Some(json) = scan::get(object, &["secrets"]).filter(|json| *json != b"null") {
        for secret in scan::elements(json) {
            secret.map_err(|_| NotPrintable)?;
            count = count.saturating_add(1);
        }
    }
    Ok(Row::new(vec![
        name(object)?,
        Cell::integer(count),
        age(object)?,
    ]))
}

/// Prints service accounts and other kinds without further columns.
pub(crate) fn print_name_and_age(object: &[u8]) -> Result<Row, NotPrintable> {
    Ok(Row::new(vec![name(object)?, age(object)?]))
}

pub(crate) fn print_default(object: &[u8]) -> Result<Row, NotPrintable> {
    Ok(Row::new(vec![name(object)?, created(object)?]))
}

/// Returns the Created At cell. A time that is not set is printed as Go's zero
/// time.
pub(crate) fn created(object: &[u8]) -> Result<Cell, NotPrintable> {
    let created = match scan::get(object, &["metadata", "creationTimestamp"]) {
        None | Some(b"null") => "0001-01-01T00:00:00Z".into(),
        Some(json) => scan::text(json).ok_or(NotPrintable)?,
    };
    Ok(Cell::text(&created))
}

pub(crate) fn name(object: &[u8]) -> Result<Cell, NotPrintable> {
    match scan::get(object, &["metadata", "name"]) {
        None => Ok(Cell::text("")),
        Some(json) => Ok(Cell::text(&scan::text(json).ok_or(NotPrintable)?)),
    }
}

pub(crate) fn age(object: &[u8]) -> Result<Cell, NotPrintable> {
    match scan::get(object, &["metadata", "creationTimestamp"]) {
        None | Some(b"null") => Ok(Cell::age(None)),
        Some(json) => {
            let text = scan::text(json).ok_or(NotPrintable)?;
            Ok(Cell::age(Moment::parse(&text)?))
        }
    }
}

/// Returns the number of keys of a map in the object.
fn keys(object: &[u8], map: &str) -> Result<i64, NotPrintable> {
    let mut count = 0i64;
    if let Some(json) = scan::get(object, &[map]).filter(|json| *json != b"null") {
        for member in scan::members(json) {
            member.map_err(|_| NotPrintable)?;
            count = count.saturating_add(1);
        }
    }
    Ok(count)
}
