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
pub fn print(object: &[u8]) -> Result<Row, NotPrintable> {
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
    Ok(Row::new(vec![
        Cell::text(&quota.metadata.name),
        texts(false),
        texts(true),
        quota.metadata.age(),
    ]))
}
