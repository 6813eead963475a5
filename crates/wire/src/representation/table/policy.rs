//! Role bindings, disruption budgets and leases.

use serde::Deserialize;

use super::NotPrintable;
use super::meta::{Meta, Object, nullable};
use super::row::{Cell, Row};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RoleBinding {
    metadata: Meta,
    #[serde(deserialize_with = "nullable")]
    subjects: Vec<Subject>,
    role_ref: RoleRef,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Subject {
    kind: String,
    namespace: String,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RoleRef {
    kind: String,
    name: String,
}

pub(crate) fn print_role_binding(object: &[u8]) -> Result<Row, NotPrintable> {
    let binding: RoleBinding = serde_json::from_slice(object)?;
    let names = |kind: &str, name: fn(&Subject) -> String| {
        let subjects = binding.subjects.iter().filter(|s| s.kind == kind);
        Cell::text(&subjects.map(name).collect::<Vec<_>>().join(", "))
    };
    Ok(Row::new(vec![
        Cell::text(&binding.metadata.name),
        Cell::text(&format!(
            "{}/{}",
            binding.role_ref.kind, binding.role_ref.name
        )),
        binding.metadata.age(),
        names("User", |s| s.name.clone()),
        names("Group", |s| s.name.clone()),
        names("ServiceAccount", |s| format!("{}/{}", s.namespace, s.name)),
    ]))
}

/// `intstr.IntOrString`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum IntOrString {
    Int(i64),
    Text(String),
}

impl IntOrString {
    fn cell(value: Option<&Self>) -> Cell {
        match value {
            None => Cell::text("N/A"),
            Some(Self::Int(n)) => Cell::text(&n.to_string()),
            Some(Self::Text(text)) => Cell::text(text),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BudgetSpec {
    min_available: Option<IntOrString>,
    max_unavailable: Option<IntOrString>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BudgetStatus {
    disruptions_allowed: i64,
}

pub(crate) fn print_disruption_budget(object: &[u8]) -> Result<Row, NotPrintable> {
    let budget: Object<BudgetSpec, BudgetStatus> = serde_json::from_slice(object)?;
    Ok(Row::new(vec![
        Cell::text(&budget.metadata.name),
        IntOrString::cell(budget.spec.min_available.as_ref()),
        IntOrString::cell(budget.spec.max_unavailable.as_ref()),
        Cell::integer(budget.status.disruptions_allowed),
        budget.metadata.age(),
    ]))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    holder_identity: Option<String>,
}

pub(crate) fn print_lease(object: &[u8]) -> Result<Row, NotPrintable> {
    let lease: Object<LeaseSpec, serde::de::IgnoredAny> = serde_json::from_slice(object)?;
    Ok(Row::new(vec![
        Cell::text(&lease.metadata.name),
        Cell::text(lease.spec.holder_identity.as_deref().unwrap_or_default()),
        lease.metadata.age(),
    ]))
}
