//! The answer to a query as a Table: its rows, as other Tables have them.

use apifront_query::{Column, QueryStatus, Row};
use kubernetes_wire::negotiation::MetaVersion;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Table {
    kind: &'static str,
    api_version: &'static str,
    metadata: ListMetadata,
    column_definitions: Vec<Definition>,
    rows: Vec<TableRow>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: String,
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    continue_token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_item_count: Option<u64>,
}

#[derive(Serialize)]
struct Definition {
    name: String,
    r#type: &'static str,
    format: &'static str,
    description: String,
    priority: i32,
}

#[derive(Serialize)]
struct TableRow {
    cells: Vec<Value>,
    object: PartialObjectMetadata,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PartialObjectMetadata {
    kind: &'static str,
    api_version: &'static str,
    metadata: Metadata,
}

#[derive(Serialize)]
struct Metadata {
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    uid: String,
}

impl Table {
    /// Makes the Table of an answer, whose page begins at `offset`.
    pub(super) fn new(status: &QueryStatus, offset: usize, version: MetaVersion) -> Self {
        let shown = offset.saturating_add(status.rows.len());
        let shown = u64::try_from(shown).unwrap_or(u64::MAX);
        let has_next = !status.continue_token.is_empty();
        let api_version = match version {
            MetaVersion::V1 => "meta.k8s.io/v1",
            MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
        };
        let rows = status.rows.iter().cloned();
        Self {
            kind: "Table",
            api_version,
            metadata: ListMetadata {
                resource_version: status.resource_version.clone(),
                continue_token: status.continue_token.clone(),
                remaining_item_count: has_next.then(|| status.total.saturating_sub(shown)),
            },
            column_definitions: status.columns.iter().map(definition).collect(),
            rows: rows.map(|row| table_row(row, api_version)).collect(),
        }
    }
}

fn definition(column: &Column) -> Definition {
    Definition {
        name: column.name.clone(),
        r#type: "string",
        format: "",
        description: column.expression.clone(),
        priority: 0,
    }
}

fn table_row(row: Row, api_version: &'static str) -> TableRow {
    let Row {
        namespace,
        name,
        uid,
        cells,
    } = row;
    let metadata = Metadata {
        name,
        namespace,
        uid,
    };
    TableRow {
        cells,
        object: PartialObjectMetadata {
            kind: "PartialObjectMetadata",
            api_version,
            metadata,
        },
    }
}
