//! Workloads that create pods: deployments, replica sets, stateful sets, daemon
//! sets, replication controllers.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::NotPrintable;
use super::meta::{Meta, Object, PodTemplate, lower, nullable};
use super::row::{Cell, Row};
use super::selector::{Selector, format_labels, format_selector};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    replicas: Option<i64>,
    selector: Option<Selector>,
    template: PodTemplate,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    replicas: i64,
    ready_replicas: i64,
    updated_replicas: i64,
    available_replicas: i64,
    desired_number_scheduled: i64,
    current_number_scheduled: i64,
    number_ready: i64,
    updated_number_scheduled: i64,
    number_available: i64,
}

type Workload = Object<Spec, Status>;

pub(crate) fn print_deployment(object: &[u8]) -> Result<Row, NotPrintable> {
    let Workload {
        metadata,
        spec,
        status,
    } = serde_json::from_slice(object)?;
    let desired = spec.replicas.unwrap_or(0);
    let [containers, images] = spec.template.container_cells();
    // An empty selector is printed as an empty text, unlike those of the other
    // workloads.
    let selector = spec
        .selector
        .map_or_else(|| Ok(String::new()), |s| s.text())?;
    Ok(Row::new(vec![
        Cell::text(&metadata.name),
        Cell::text(&format!("{}/{desired}", status.ready_replicas)),
        Cell::integer(status.updated_replicas),
        Cell::integer(status.available_replicas),
        metadata.age(),
        containers,
        images,
        Cell::text(&selector),
    ]))
}

pub(crate) fn print_replica_set(object: &[u8]) -> Result<Row, NotPrintable> {
    let set: Workload = serde_json::from_slice(object)?;
    let [containers, images] = set.spec.template.container_cells();
    Ok(Row::new(vec![
        Cell::text(&set.metadata.name),
        Cell::integer(set.spec.replicas.unwrap_or(0)),
        Cell::integer(set.status.replicas),
        Cell::integer(set.status.ready_replicas),
        set.metadata.age(),
        containers,
        images,
        Cell::text(&format_selector(set.spec.selector.as_ref())?),
    ]))
}

pub(crate) fn print_stateful_set(object: &[u8]) -> Result<Row, NotPrintable> {
    let set: Workload = serde_json::from_slice(object)?;
    let desired = set.spec.replicas.unwrap_or(0);
    let [containers, images] = set.spec.template.container_cells();
    Ok(Row::new(vec![
        Cell::text(&set.metadata.name),
        Cell::text(&format!("{}/{desired}", set.status.ready_replicas)),
        set.metadata.age(),
        containers,
        images,
    ]))
}

pub(crate) fn print_daemon_set(object: &[u8]) -> Result<Row, NotPrintable> {
    let set: Workload = serde_json::from_slice(object)?;
    let [containers, images] = set.spec.template.container_cells();
    let status = &set.status;
    Ok(Row::new(vec![
        Cell::text(&set.metadata.name),
        Cell::integer(status.desired_number_scheduled),
        Cell::integer(status.current_number_scheduled),
        Cell::integer(status.number_ready),
        Cell::integer(status.updated_number_scheduled),
        Cell::integer(status.number_available),
        Cell::text(&format_labels(&set.spec.template.spec.node_selector)),
        set.metadata.age(),
        containers,
        images,
        Cell::text(&format_selector(set.spec.selector.as_ref())?),
    ]))
}

/// The spec of a replication controller, which selects by plain labels.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ControllerSpec {
    replicas: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    selector: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    template: PodTemplate,
}

pub(crate) fn print_replication_controller(object: &[u8]) -> Result<Row, NotPrintable> {
    let rc: Object<ControllerSpec, Status> = serde_json::from_slice(object)?;
    let [containers, images] = rc.spec.template.container_cells();
    Ok(Row::new(vec![
        Cell::text(&rc.metadata.name),
        Cell::integer(rc.spec.replicas.unwrap_or(0)),
        Cell::integer(rc.status.replicas),
        Cell::integer(rc.status.ready_replicas),
        rc.metadata.age(),
        containers,
        images,
        Cell::text(&format_labels(&rc.spec.selector)),
    ]))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LoneTemplate {
    metadata: Meta,
    template: PodTemplate,
}

pub(crate) fn print_pod_template(object: &[u8]) -> Result<Row, NotPrintable> {
    let LoneTemplate { metadata, template } = serde_json::from_slice(object)?;
    let [containers, images] = template.container_cells();
    Ok(Row::new(vec![
        Cell::text(&metadata.name),
        containers,
        images,
        Cell::text(&format_labels(&template.metadata.labels)),
    ]))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ControllerRevision {
    metadata: Owned,
    revision: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Owned {
    #[serde(flatten)]
    meta: Meta,
    #[serde(deserialize_with = "nullable")]
    owner_references: Vec<Owner>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Owner {
    api_version: String,
    kind: String,
    name: String,
    controller: Option<bool>,
}

pub(crate) fn print_controller_revision(object: &[u8]) -> Result<Row, NotPrintable> {
    let revision: ControllerRevision = serde_json::from_slice(object)?;
    let owners = &revision.metadata.owner_references;
    let controller = match owners.iter().find(|o| o.controller == Some(true)) {
        None => "<none>".to_owned(),
        Some(owner) => {
            let (group, version) = owner
                .api_version
                .split_once('/')
                .unwrap_or(("", &owner.api_version));
            // An apiVersion of more than two parts is not a group and a
            // version.
            if version.contains('/') {
                return Err(NotPrintable);
            }
            let kind = match (owner.kind.as_str(), group) {
                ("", "") => String::new(),
                (kind, "") => format!("{kind}/"),
                (kind, group) => format!("{kind}.{group}/"),
            };
            format!("{}{}", lower(&kind)?, owner.name)
        }
    };
    let meta = &revision.metadata.meta;
    Ok(Row::new(vec![
        Cell::text(&meta.name),
        Cell::text(&controller),
        Cell::integer(revision.revision),
        meta.age(),
    ]))
}
