//! Resource quotas.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::NotPrintable;
use super::meta::{Object, nullable};
use super::row::{Cell, Row};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "nullable")]
    hard: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    used: BTreeMap<String, String>,
}

/// Prints a quota. The server sends quantities in their canonical form.
pub(crate) fn print(object: &[u8]) -> Result<Row, NotPrintable> {
    let [name, age, requests, limits] = cells(object)?;
    Ok(Row::new(vec![name, requests, limits, age]))
}

/// Prints a quota as releases before 1.33 do, with its age before its limits.
pub(crate) fn print_before_1_33(object: &[u8]) -> Result<Row, NotPrintable> {
    Ok(Row::new(cells(object)?.into()))
}

fn cells(object: &[u8]) -> Result<[Cell; 4], NotPrintable> {
    let quota: Object<IgnoredAny, Status> = serde_json::from_slice(object)?;
    let status = &quota.status;
    let texts = |limits: bool| {
        let resources = status.hard.iter();
        let shown: Vec<String> = resources
            .filter(|(resource, _)| resource.starts_with("limits.") == limits)
            .map(|(resource, hard)| {
                let used = status.used.get(resource).map_or("0", String::as_str);
                format!("{resource}: {used}/{hard}")
            })
            .collect();
        Cell::text(&shown.join(", "))
    };
    Ok([
        Cell::text(&quota.metadata.name),
        quota.metadata.age(),
        texts(false),
        texts(true),
    ])
}
