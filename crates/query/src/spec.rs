//! The API type `Query`, version v1alpha1.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A question, and its answer. Nothing is stored.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Query {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    /// Nothing of the metadata is used. It is part of the answer.
    #[serde(default)]
    pub metadata: serde_json::Map<String, Value>,
    #[serde(default)]
    pub spec: QuerySpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<QueryStatus>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct QuerySpec {
    pub resource: ResourceReference,
    /// Empty: all namespaces in which the caller may list.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field_selector: String,
    /// A CEL expression of type bool about `object`.
    #[serde(rename = "where", skip_serializing_if = "String::is_empty")]
    pub condition: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Column>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order_by: Vec<OrderBy>,
    /// The most rows. 0 means the default.
    #[serde(skip_serializing_if = "is_zero")]
    pub limit: i64,
    #[serde(skip_serializing_if = "is_zero")]
    pub offset: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub count_by: Vec<String>,
    /// How often a live answer changes, at most. 0 means the default.
    #[serde(skip_serializing_if = "is_zero")]
    pub max_updates_per_second: i64,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version_match: String,
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
}

fn is_zero(n: &i64) -> bool {
    *n == 0
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceReference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub version: String,
    pub resource: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Column {
    pub name: String,
    /// Empty for a column of a Table.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expression: String,
}

/// Either a column by its name, or an expression.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct OrderBy {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub column: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expression: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub descending: bool,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryStatus {
    /// The version of the state that is shown.
    pub resource_version: String,
    /// The number of objects that were selected, on all pages.
    pub total: u64,
    pub columns: Vec<Column>,
    pub rows: Vec<Row>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<Count>,
    /// What changed in the rows, in the events of a live answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<RowChange>,
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub continue_token: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Row {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    pub cells: Vec<Value>,
}

/// The number of selected objects with these values of the expressions in `countBy`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Count {
    pub values: Vec<Value>,
    pub count: u64,
}

/// A change of a live answer's rows. Each index is about the rows as the changes before
/// left them.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq)]
#[serde(tag = "type")]
pub enum RowChange {
    Removed {
        index: usize,
    },
    Added {
        index: usize,
        row: Row,
    },
    /// The row at `from` is taken out, and put in at `index`.
    Moved {
        from: usize,
        index: usize,
    },
    Changed {
        index: usize,
        row: Row,
    },
}
