//! The window of an answer: the page of rows that it shows, and the counts.

use apifront_query::{Column, Count, QueryStatus, Row};

#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    pub(super) resource_version: String,
    pub(super) total: u64,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
    pub(super) counts: Vec<Count>,
    pub(super) warnings: Vec<String>,
}

impl From<QueryStatus> for Window {
    fn from(status: QueryStatus) -> Self {
        Self {
            resource_version: status.resource_version,
            total: status.total,
            columns: status.columns,
            rows: status.rows,
            counts: status.counts,
            warnings: status.warnings,
        }
    }
}
