//! Which built-in resources are printed, and under which columns. The column
//! definitions are data, recorded from kube-apiserver: `columns.json`.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use serde_json::value::RawValue;

use super::{Cells, PrintRow, Printer, Source};
use super::{core, events, jobs, networking, nodes, pods, policy, services, storage, workloads};
use crate::api::GroupVersionResource;

/// `GroupVersionResource`s as configuration writes them, with their printers.
/// `None`: no printer upstream either, which shows Name and Created At.
const BUILT_IN: [(&str, Option<PrintRow>); 32] = [
    (
        "clusterrolebindings.v1.rbac.authorization.k8s.io",
        Some(policy::print_role_binding),
    ),
    ("clusterroles.v1.rbac.authorization.k8s.io", None),
    ("configmaps.v1", Some(core::print_config_map)),
    ("cronjobs.v1.batch", Some(jobs::print_cron_job)),
    ("customresourcedefinitions.v1.apiextensions.k8s.io", None),
    ("daemonsets.v1.apps", Some(workloads::print_daemon_set)),
    ("deployments.v1.apps", Some(workloads::print_deployment)),
    ("endpoints.v1", Some(services::print_endpoints)),
    (
        "endpointslices.v1.discovery.k8s.io",
        Some(services::print_endpoint_slice),
    ),
    ("events.v1", Some(events::print)),
    (
        "ingressclasses.v1.networking.k8s.io",
        Some(networking::print_ingress_class),
    ),
    (
        "ingresses.v1.networking.k8s.io",
        Some(networking::print_ingress),
    ),
    ("jobs.v1.batch", Some(jobs::print_job)),
    ("leases.v1.coordination.k8s.io", Some(policy::print_lease)),
    ("limitranges.v1", None),
    ("namespaces.v1", Some(core::print_namespace)),
    (
        "networkpolicies.v1.networking.k8s.io",
        Some(networking::print_network_policy),
    ),
    ("nodes.v1", Some(nodes::print)),
    (
        "persistentvolumeclaims.v1",
        Some(storage::print_persistent_volume_claim),
    ),
    (
        "persistentvolumes.v1",
        Some(storage::print_persistent_volume),
    ),
    (
        "poddisruptionbudgets.v1.policy",
        Some(policy::print_disruption_budget),
    ),
    ("pods.v1", Some(pods::print)),
    (
        "priorityclasses.v1.scheduling.k8s.io",
        Some(policy::print_priority_class),
    ),
    ("replicasets.v1.apps", Some(workloads::print_replica_set)),
    (
        "replicationcontrollers.v1",
        Some(workloads::print_replication_controller),
    ),
    (
        "rolebindings.v1.rbac.authorization.k8s.io",
        Some(policy::print_role_binding),
    ),
    ("roles.v1.rbac.authorization.k8s.io", None),
    ("secrets.v1", Some(core::print_secret)),
    ("serviceaccounts.v1", Some(core::print_service_account)),
    ("services.v1", Some(services::print_service)),
    ("statefulsets.v1.apps", Some(workloads::print_stateful_set)),
    (
        "storageclasses.v1.storage.k8s.io",
        Some(storage::print_storage_class),
    ),
];

/// The key of Name and Created At.
const DEFAULT: &str = "default";

type Columns = HashMap<String, Box<RawValue>>;

static COLUMNS: LazyLock<Columns> =
    LazyLock::new(|| serde_json::from_str(include_str!("columns.json")).unwrap_or_default());

static PRINTERS: LazyLock<HashMap<&str, Printer>> = LazyLock::new(|| {
    let printer = |(name, print): &(&'static str, Option<PrintRow>)| {
        let columns = COLUMNS.get(*name)?.get().to_owned();
        let source = print.map_or(Source::Default, Source::BuiltIn);
        let cells = Arc::new(Cells(source));
        Some((*name, Printer { columns, cells }))
    };
    BUILT_IN.iter().filter_map(printer).collect()
});

static DEFAULT_PRINTER: LazyLock<Printer> = LazyLock::new(|| Printer {
    columns: definitions(DEFAULT).to_owned(),
    cells: Arc::new(Cells(Source::Default)),
});

/// The recorded column definitions of a resource.
fn definitions(name: &str) -> &'static str {
    COLUMNS.get(name).map_or("[]", |json| json.get())
}

pub fn printer(gvr: &GroupVersionResource) -> Option<&'static Printer> {
    PRINTERS.get(gvr.to_string().as_str())
}

pub fn default_printer() -> &'static Printer {
    &DEFAULT_PRINTER
}

/// The Name column, as every custom resource has it.
pub fn name_column() -> &'static str {
    let definitions = definitions(DEFAULT).as_bytes();
    super::scan::elements(definitions)
        .next()
        .and_then(Result::ok)
        .and_then(|(_, column)| std::str::from_utf8(column).ok())
        .unwrap_or("{}")
}

/// What the documentation of creationTimestamp says: the description of Age.
pub fn creation_timestamp_description() -> String {
    let definitions = definitions(DEFAULT).as_bytes();
    super::scan::elements(definitions)
        .nth(1)
        .and_then(Result::ok)
        .and_then(|(_, column)| super::scan::text_at(column, &["description"]))
        .unwrap_or_default()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_printer_has_its_columns() {
        assert_eq!(PRINTERS.len(), BUILT_IN.len());
        assert!(name_column().starts_with(r#"{"name":"Name","type":"string","format":"name""#));
        let pods = GroupVersionResource::new("", "v1", "pods");
        assert!(printer(&pods).is_some());
        let unknown = GroupVersionResource::new("example.com", "v1", "pods");
        assert!(printer(&unknown).is_none());
    }
}
