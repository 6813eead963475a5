//! Admission policies and their bindings.

use serde::Deserialize;

use super::NotPrintable;
use super::meta::{Object, nullable};
use super::row::{Cell, Row};
use super::selector::Selector;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PolicySpec {
    param_kind: Option<ParamKind>,
    #[serde(deserialize_with = "nullable")]
    validations: Vec<serde::de::IgnoredAny>,
    #[serde(deserialize_with = "nullable")]
    mutations: Vec<serde::de::IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ParamKind {
    api_version: String,
    kind: String,
}

/// Prints a validating or a mutating policy. Each has its own kind of rules.
pub(crate) fn print_policy(object: &[u8]) -> Result<Row, NotPrintable> {
    let policy: Object<PolicySpec, serde::de::IgnoredAny> = serde_json::from_slice(object)?;
    let (validations, mutations) = (&policy.spec.validations, &policy.spec.mutations);
    let rules = validations.len().saturating_add(mutations.len());
    let kind = match &policy.spec.param_kind {
        None => "<unset>".to_owned(),
        Some(kind) => format!("{}/{}", kind.api_version, kind.kind),
    };
    Ok(Row::new(vec![
        Cell::text(&policy.metadata.name),
        Cell::integer(i64::try_from(rules).map_err(|_| NotPrintable)?),
        Cell::text(&kind),
        policy.metadata.age(),
    ]))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BindingSpec {
    policy_name: String,
    param_ref: Option<ParamRef>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ParamRef {
    name: String,
    namespace: String,
    selector: Option<Selector>,
}

pub(crate) fn print_binding(object: &[u8]) -> Result<Row, NotPrintable> {
    let binding: Object<BindingSpec, serde::de::IgnoredAny> = serde_json::from_slice(object)?;
    Ok(Row::new(vec![
        Cell::text(&binding.metadata.name),
        Cell::text(&binding.spec.policy_name),
        Cell::text(&params(binding.spec.param_ref.as_ref())),
        binding.metadata.age(),
    ]))
}

fn params(params: Option<&ParamRef>) -> String {
    let Some(params) = params else {
        return "<unset>".to_owned();
    };
    match (params.name.as_str(), params.namespace.as_str()) {
        ("", _) => params
            .selector
            .as_ref()
            .map_or_else(|| "<unset>".to_owned(), Selector::go_string),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    }
}
