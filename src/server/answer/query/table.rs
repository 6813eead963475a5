//! The answer to a query as a Table: its rows, as other Tables have them.

use apifront_query::{Column, QueryStatus, Row};
use kubernetes_wire::negotiation::MetaVersion;
use serde_json::{Value, json};

/// Returns the Table of an answer. Its metadata are those of a list.
pub(super) fn of_status(status: &QueryStatus, offset: usize, version: MetaVersion) -> Value {
    let mut metadata = json!({ "resourceVersion": status.resource_version });
    if !status.continue_token.is_empty() {
        let shown = offset.saturating_add(status.rows.len());
        let shown = u64::try_from(shown).unwrap_or(u64::MAX);
        metadata["continue"] = json!(status.continue_token);
        metadata["remainingItemCount"] = json!(status.total.saturating_sub(shown));
    }
    let api_version = match version {
        MetaVersion::V1 => "meta.k8s.io/v1",
        MetaVersion::V1Beta1 => "meta.k8s.io/v1beta1",
    };
    let columns = status.columns.iter().map(definition);
    let rows = status
        .rows
        .iter()
        .map(|row| json!({ "cells": row.cells, "object": object(row, api_version) }));
    json!({
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": metadata,
        "columnDefinitions": columns.collect::<Value>(),
        "rows": rows.collect::<Value>(),
    })
}

fn definition(column: &Column) -> Value {
    json!({
        "name": column.name,
        "type": "string",
        "format": "",
        "description": column.expression,
        "priority": 0,
    })
}

fn object(row: &Row, api_version: &str) -> Value {
    let mut metadata = json!({ "name": row.name, "uid": row.uid });
    if !row.namespace.is_empty() {
        metadata["namespace"] = json!(row.namespace);
    }
    json!({ "kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": metadata })
}
