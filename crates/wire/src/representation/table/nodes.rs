//! Nodes: readiness, roles, addresses and system information.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::NotPrintable;
use super::meta::{Object, nullable};
use super::row::{Cell, Row};

const ROLE_LABEL_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    unschedulable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<Condition>,
    #[serde(deserialize_with = "nullable")]
    addresses: Vec<Address>,
    node_info: NodeInfo,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    r#type: String,
    status: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    r#type: String,
    address: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfo {
    kubelet_version: String,
    os_image: String,
    kernel_version: String,
    container_runtime_version: String,
    architecture: String,
}

pub(crate) fn print(object: &[u8]) -> Result<Row, NotPrintable> {
    Ok(row(&serde_json::from_slice(object)?))
}

/// Prints a node as releases before 1.36 do, without its architecture.
pub(super) fn print_before_1_36(object: &[u8]) -> Result<Row, NotPrintable> {
    let mut node: Object<Spec, Status> = serde_json::from_slice(object)?;
    node.status.node_info.architecture.clear();
    Ok(row(&node))
}

fn row(node: &Object<Spec, Status>) -> Row {
    let info = &node.status.node_info;
    let or_unknown = |text: &str| {
        if text.is_empty() {
            "<unknown>".to_owned()
        } else {
            text.to_owned()
        }
    };
    let mut kernel = or_unknown(&info.kernel_version);
    if !info.architecture.is_empty() {
        kernel = format!("{kernel} ({})", info.architecture);
    }
    Row::new(vec![
        Cell::text(&node.metadata.name),
        Cell::text(&status(node)),
        Cell::text(&roles(node)),
        node.metadata.age(),
        Cell::text(&info.kubelet_version),
        Cell::text(address(&node.status, "InternalIP")),
        Cell::text(address(&node.status, "ExternalIP")),
        Cell::text(&or_unknown(&info.os_image)),
        Cell::text(&kernel),
        Cell::text(&or_unknown(&info.container_runtime_version)),
    ])
}

fn status(node: &Object<Spec, Status>) -> String {
    // If there are several conditions of a type, the last one counts.
    let ready = node.status.conditions.iter().rfind(|c| c.r#type == "Ready");
    let ready = match ready {
        Some(condition) if condition.status == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if node.spec.unschedulable {
        format!("{ready},SchedulingDisabled")
    } else {
        ready.to_owned()
    }
}

fn roles(node: &Object<Spec, Status>) -> String {
    let roles: BTreeSet<&str> = node
        .metadata
        .labels
        .iter()
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_LABEL_PREFIX) {
            Some(role) => Some(role),
            None => (key == ROLE_LABEL).then_some(value.as_str()),
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() {
        return "<none>".to_owned();
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn address<'a>(status: &'a Status, r#type: &str) -> &'a str {
    let found = status.addresses.iter().find(|a| a.r#type == r#type);
    found.map_or("<none>", |a| &a.address)
}
