//! Which built-in resources are printed, and under which columns. The column
//! definitions are data, recorded from kube-apiserver: `columns.json`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::value::RawValue;

use super::{PrintRow, Printer, Source};
use super::{core, events, jobs, networking, nodes, pods, policy, services, storage, workloads};
use crate::api::GroupVersionResource;

/// `GroupVersionResource`s as configuration writes them, with their printers.
/// Roles, definitions and the like have no printer of their own upstream.
const BUILT_IN: [(&str, PrintRow); 32] = [
    (
        "clusterrolebindings.v1.rbac.authorization.k8s.io",
        policy::print_role_binding,
    ),
    (
        "clusterroles.v1.rbac.authorization.k8s.io",
        core::print_default,
    ),
    ("configmaps.v1", core::print_config_map),
    ("cronjobs.v1.batch", jobs::print_cron_job),
    (
        "customresourcedefinitions.v1.apiextensions.k8s.io",
        core::print_default,
    ),
    ("daemonsets.v1.apps", workloads::print_daemon_set),
    ("deployments.v1.apps", workloads::print_deployment),
    ("endpoints.v1", services::print_endpoints),
    (
        "endpointslices.v1.discovery.k8s.io",
        services::print_endpoint_slice,
    ),
    ("events.v1", events::print),
    (
        "ingressclasses.v1.networking.k8s.io",
        networking::print_ingress_class,
    ),
    ("ingresses.v1.networking.k8s.io", networking::print_ingress),
    ("jobs.v1.batch", jobs::print_job),
    ("leases.v1.coordination.k8s.io", policy::print_lease),
    ("limitranges.v1", core::print_default),
    ("namespaces.v1", core::print_namespace),
    (
        "networkpolicies.v1.networking.k8s.io",
        networking::print_network_policy,
    ),
    ("nodes.v1", nodes::print),
    (
        "persistentvolumeclaims.v1",
        storage::print_persistent_volume_claim,
    ),
    ("persistentvolumes.v1", storage::print_persistent_volume),
    (
        "poddisruptionbudgets.v1.policy",
        policy::print_disruption_budget,
    ),
    ("pods.v1", pods::print),
    (
        "priorityclasses.v1.scheduling.k8s.io",
        policy::print_priority_class,
    ),
    ("replicasets.v1.apps", workloads::print_replica_set),
    (
        "replicationcontrollers.v1",
        workloads::print_replication_controller,
    ),
    (
        "rolebindings.v1.rbac.authorization.k8s.io",
        policy::print_role_binding,
    ),
    ("roles.v1.rbac.authorization.k8s.io", core::print_default),
    ("secrets.v1", core::print_secret),
    ("serviceaccounts.v1", core::print_service_account),
    ("services.v1", services::print_service),
    ("statefulsets.v1.apps", workloads::print_stateful_set),
    (
        "storageclasses.v1.storage.k8s.io",
        storage::print_storage_class,
    ),
];

/// The key of Name and Created At.
const DEFAULT: &str = "default";

type Columns = HashMap<String, Box<RawValue>>;

static COLUMNS: LazyLock<Columns> =
    LazyLock::new(|| serde_json::from_str(include_str!("columns.json")).unwrap_or_default());

static PRINTERS: LazyLock<HashMap<&str, Printer>> = LazyLock::new(|| {
    let printer = |(name, print): &(&'static str, PrintRow)| {
        let columns = COLUMNS.get(*name)?.get().to_owned();
        let source = Source::BuiltIn(*print);
        Some((*name, Printer { columns, source }))
    };
    BUILT_IN.iter().filter_map(printer).collect()
});

static DEFAULT_PRINTER: LazyLock<Printer> = LazyLock::new(|| Printer {
    columns: definitions(DEFAULT).to_owned(),
    source: Source::BuiltIn(core::print_default),
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
