//! The events of a live answer.

use apifront_query::{Count, RowChange};
use bytes::Bytes;
use serde::Serialize;

use crate::queries;

#[derive(Serialize)]
struct Event<'a, T> {
    #[serde(rename = "type")]
    kind: &'static str,
    object: &'a T,
}

/// A Query that has only what changed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Update {
    api_version: String,
    kind: &'static str,
    status: UpdateStatus,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpdateStatus {
    resource_version: String,
    total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<Vec<Count>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<RowChange>,
}

impl Update {
    pub(super) fn new(
        version: u64,
        total: u64,
        counts: Option<Vec<Count>>,
        changes: Vec<RowChange>,
    ) -> Self {
        Self {
            api_version: queries::group_version().to_string(),
            kind: queries::KIND,
            status: UpdateStatus {
                resource_version: version.to_string(),
                total,
                counts,
                changes,
            },
        }
    }
}

/// Returns an event as a line.
pub(super) fn line(kind: &'static str, object: &impl Serialize) -> Bytes {
    let mut line = serde_json::to_vec(&Event { kind, object }).unwrap_or_default();
    line.push(b'\n');
    line.into()
}
