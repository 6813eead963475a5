//! The printers of built-in resources and their columns. The column definitions
//! are data that was recorded from kube-apiserver: `columns.json`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::value::RawValue;

use super::{PrintRow, Printer, Quirks, Source};
use super::{
    admission, api_machinery, autoscaling, certificates, core, devices, events, jobs, lifecycle,
    networking, nodes, pods, policy, quotas, scheduling, services, simple, storage, workloads,
};
use crate::api::GroupVersionResource;
use crate::representation::scan;

/// All resources that kube-apiserver 1.37 can list and watch, including alpha
/// versions, and those that it no longer has. Horizontal pod autoscalers of version
/// 1 are left out (`autoscaling.rs`). The names are those of configuration files.
/// `None` stands for a resource without a printer in upstream, which shows Name and
/// Created At.
const BUILT_IN: [(&str, Option<PrintRow>); 95] = [
    ("configmaps.v1", Some(core::print_config_map)),
    ("endpoints.v1", Some(services::print_endpoints)),
    ("events.v1", Some(events::print)),
    ("limitranges.v1", None),
    ("namespaces.v1", Some(core::print_namespace)),
    ("nodes.v1", Some(nodes::print)),
    (
        "persistentvolumeclaims.v1",
        Some(storage::print_persistent_volume_claim),
    ),
    (
        "persistentvolumes.v1",
        Some(storage::print_persistent_volume),
    ),
    ("pods.v1", Some(pods::print)),
    ("podtemplates.v1", Some(workloads::print_pod_template)),
    (
        "replicationcontrollers.v1",
        Some(workloads::print_replication_controller),
    ),
    ("resourcequotas.v1", Some(quotas::print)),
    ("secrets.v1", Some(core::print_secret)),
    ("serviceaccounts.v1", Some(core::print_name_and_age)),
    ("services.v1", Some(services::print_service)),
    (
        "mutatingadmissionpolicies.v1.admissionregistration.k8s.io",
        Some(admission::print_policy),
    ),
    (
        "mutatingadmissionpolicies.v1alpha1.admissionregistration.k8s.io",
        Some(admission::print_policy),
    ),
    (
        "mutatingadmissionpolicies.v1beta1.admissionregistration.k8s.io",
        Some(admission::print_policy),
    ),
    (
        "mutatingadmissionpolicybindings.v1.admissionregistration.k8s.io",
        Some(admission::print_binding),
    ),
    (
        "mutatingadmissionpolicybindings.v1alpha1.admissionregistration.k8s.io",
        Some(admission::print_binding),
    ),
    (
        "mutatingadmissionpolicybindings.v1beta1.admissionregistration.k8s.io",
        Some(admission::print_binding),
    ),
    (
        "mutatingwebhookconfigurations.v1.admissionregistration.k8s.io",
        Some(simple::print_webhook_configuration),
    ),
    (
        "validatingadmissionpolicies.v1.admissionregistration.k8s.io",
        Some(admission::print_policy),
    ),
    (
        "validatingadmissionpolicybindings.v1.admissionregistration.k8s.io",
        Some(admission::print_binding),
    ),
    (
        "validatingwebhookconfigurations.v1.admissionregistration.k8s.io",
        Some(simple::print_webhook_configuration),
    ),
    (
        "customresourcedefinitions.v1.apiextensions.k8s.io",
        Some(api_machinery::print_custom_resource_definition),
    ),
    (
        "apiservices.v1.apiregistration.k8s.io",
        Some(api_machinery::print_api_service),
    ),
    (
        "controllerrevisions.v1.apps",
        Some(workloads::print_controller_revision),
    ),
    ("daemonsets.v1.apps", Some(workloads::print_daemon_set)),
    ("deployments.v1.apps", Some(workloads::print_deployment)),
    ("replicasets.v1.apps", Some(workloads::print_replica_set)),
    ("statefulsets.v1.apps", Some(workloads::print_stateful_set)),
    (
        "horizontalpodautoscalers.v2.autoscaling",
        Some(autoscaling::print),
    ),
    ("cronjobs.v1.batch", Some(jobs::print_cron_job)),
    ("jobs.v1.batch", Some(jobs::print_job)),
    (
        "certificatesigningrequests.v1.certificates.k8s.io",
        Some(certificates::print_signing_request),
    ),
    (
        "clustertrustbundles.v1.certificates.k8s.io",
        Some(simple::print_cluster_trust_bundle),
    ),
    (
        "clustertrustbundles.v1alpha1.certificates.k8s.io",
        Some(simple::print_cluster_trust_bundle),
    ),
    (
        "clustertrustbundles.v1beta1.certificates.k8s.io",
        Some(simple::print_cluster_trust_bundle),
    ),
    (
        "podcertificaterequests.v1.certificates.k8s.io",
        Some(certificates::print_pod_request),
    ),
    (
        "podcertificaterequests.v1beta1.certificates.k8s.io",
        Some(certificates::print_pod_request),
    ),
    (
        "leasecandidates.v1alpha2.coordination.k8s.io",
        Some(simple::print_lease_candidate),
    ),
    (
        "leasecandidates.v1beta1.coordination.k8s.io",
        Some(simple::print_lease_candidate),
    ),
    ("leases.v1.coordination.k8s.io", Some(policy::print_lease)),
    (
        "endpointslices.v1.discovery.k8s.io",
        Some(services::print_endpoint_slice),
    ),
    ("events.v1.events.k8s.io", Some(events::print)),
    (
        "flowschemas.v1.flowcontrol.apiserver.k8s.io",
        Some(api_machinery::print_flow_schema),
    ),
    (
        "prioritylevelconfigurations.v1.flowcontrol.apiserver.k8s.io",
        Some(api_machinery::print_priority_level),
    ),
    (
        "storageversions.v1alpha1.internal.apiserver.k8s.io",
        Some(api_machinery::print_storage_version),
    ),
    (
        "evictionrequests.v1alpha1.lifecycle.k8s.io",
        Some(lifecycle::print_eviction_request),
    ),
    (
        "evictions.v1alpha1.lifecycle.k8s.io",
        Some(lifecycle::print_eviction),
    ),
    (
        "ingressclasses.v1.networking.k8s.io",
        Some(networking::print_ingress_class),
    ),
    (
        "ingresses.v1.networking.k8s.io",
        Some(networking::print_ingress),
    ),
    (
        "ipaddresses.v1.networking.k8s.io",
        Some(networking::print_ip_address),
    ),
    (
        "ipaddresses.v1beta1.networking.k8s.io",
        Some(networking::print_ip_address),
    ),
    (
        "networkpolicies.v1.networking.k8s.io",
        Some(networking::print_network_policy),
    ),
    (
        "servicecidrs.v1.networking.k8s.io",
        Some(simple::print_service_cidr),
    ),
    (
        "servicecidrs.v1beta1.networking.k8s.io",
        Some(simple::print_service_cidr),
    ),
    (
        "runtimeclasses.v1.node.k8s.io",
        Some(simple::print_runtime_class),
    ),
    (
        "poddisruptionbudgets.v1.policy",
        Some(policy::print_disruption_budget),
    ),
    (
        "clusterrolebindings.v1.rbac.authorization.k8s.io",
        Some(policy::print_role_binding),
    ),
    ("clusterroles.v1.rbac.authorization.k8s.io", None),
    (
        "rolebindings.v1.rbac.authorization.k8s.io",
        Some(policy::print_role_binding),
    ),
    ("roles.v1.rbac.authorization.k8s.io", None),
    (
        "deviceclasses.v1.resource.k8s.io",
        Some(core::print_name_and_age),
    ),
    (
        "deviceclasses.v1beta1.resource.k8s.io",
        Some(core::print_name_and_age),
    ),
    (
        "deviceclasses.v1beta2.resource.k8s.io",
        Some(core::print_name_and_age),
    ),
    (
        "devicetaintrules.v1.resource.k8s.io",
        Some(devices::print_device_taint_rule),
    ),
    (
        "devicetaintrules.v1alpha3.resource.k8s.io",
        Some(devices::print_device_taint_rule),
    ),
    (
        "devicetaintrules.v1beta2.resource.k8s.io",
        Some(devices::print_device_taint_rule),
    ),
    (
        "resourceclaims.v1.resource.k8s.io",
        Some(devices::print_resource_claim),
    ),
    (
        "resourceclaims.v1beta1.resource.k8s.io",
        Some(devices::print_resource_claim),
    ),
    (
        "resourceclaims.v1beta2.resource.k8s.io",
        Some(devices::print_resource_claim),
    ),
    (
        "resourceclaimtemplates.v1.resource.k8s.io",
        Some(core::print_name_and_age),
    ),
    (
        "resourceclaimtemplates.v1beta1.resource.k8s.io",
        Some(core::print_name_and_age),
    ),
    (
        "resourceclaimtemplates.v1beta2.resource.k8s.io",
        Some(core::print_name_and_age),
    ),
    (
        "resourcepoolstatusrequests.v1alpha3.resource.k8s.io",
        Some(devices::print_pool_status_request),
    ),
    (
        "resourceslices.v1.resource.k8s.io",
        Some(simple::print_resource_slice),
    ),
    (
        "resourceslices.v1beta1.resource.k8s.io",
        Some(simple::print_resource_slice),
    ),
    (
        "resourceslices.v1beta2.resource.k8s.io",
        Some(simple::print_resource_slice),
    ),
    (
        "compositepodgroups.v1alpha3.scheduling.k8s.io",
        Some(scheduling::print_composite_pod_group),
    ),
    (
        "podgroups.v1alpha3.scheduling.k8s.io",
        Some(scheduling::print_pod_group),
    ),
    (
        "podgroups.v1beta1.scheduling.k8s.io",
        Some(scheduling::print_pod_group),
    ),
    (
        "priorityclasses.v1.scheduling.k8s.io",
        Some(scheduling::print_priority_class),
    ),
    (
        "workloads.v1alpha3.scheduling.k8s.io",
        Some(core::print_name_and_age),
    ),
    (
        "workloads.v1beta1.scheduling.k8s.io",
        Some(core::print_name_and_age),
    ),
    (
        "csidrivers.v1.storage.k8s.io",
        Some(storage::print_csi_driver),
    ),
    ("csinodes.v1.storage.k8s.io", Some(simple::print_csi_node)),
    ("csistoragecapacities.v1.storage.k8s.io", None),
    (
        "storageclasses.v1.storage.k8s.io",
        Some(storage::print_storage_class),
    ),
    (
        "volumeattachments.v1.storage.k8s.io",
        Some(simple::print_volume_attachment),
    ),
    (
        "volumeattributesclasses.v1.storage.k8s.io",
        Some(simple::print_volume_attributes_class),
    ),
    (
        "volumeattributesclasses.v1beta1.storage.k8s.io",
        Some(simple::print_volume_attributes_class),
    ),
    (
        "storageversionmigrations.v1.storagemigration.k8s.io",
        Some(api_machinery::print_storage_version_migration),
    ),
    (
        "storageversionmigrations.v1beta1.storagemigration.k8s.io",
        Some(api_machinery::print_storage_version_migration),
    ),
];

/// The key in `columns.json` of the columns Name and Created At.
const DEFAULT: &str = "default";

type Columns = HashMap<String, Box<RawValue>>;

static COLUMNS: LazyLock<Columns> =
    LazyLock::new(|| serde_json::from_str(include_str!("columns.json")).unwrap_or_default());

static PRINTERS: LazyLock<HashMap<&str, Printer>> = LazyLock::new(|| {
    let printer = |(name, print): &(&'static str, Option<PrintRow>)| {
        let columns = COLUMNS.get(*name)?.get().to_owned();
        let source = print.map_or(Source::Default, Source::BuiltIn);
        let mut printer = Printer::new(columns, source);
        printer.quirks = quirks(name);
        Some((*name, printer))
    };
    BUILT_IN.iter().filter_map(printer).collect()
});

static DEFAULT_PRINTER: LazyLock<Printer> =
    LazyLock::new(|| Printer::new(definitions(DEFAULT).to_owned(), Source::Default));

fn quirks(name: &str) -> Quirks {
    Quirks {
        order: match name {
            "flowschemas.v1.flowcontrol.apiserver.k8s.io" => Some(api_machinery::precedence),
            _ => None,
        },
        chosen: (name == "storageclasses.v1.storage.k8s.io").then_some(storage::DEFAULT_CLASS),
        null_rows: name == "customresourcedefinitions.v1.apiextensions.k8s.io",
        // The aggregator's own converter does not support the option that
        // leaves out the columns.
        repeats_columns: name == "apiservices.v1.apiregistration.k8s.io",
    }
}

fn definitions(name: &str) -> &'static str {
    COLUMNS.get(name).map_or("[]", |json| json.get())
}

pub(crate) fn printer(gvr: &GroupVersionResource) -> Option<&'static Printer> {
    named(&gvr.to_string())
}

/// Returns the printer of the resource with a name such as `pods.v1`.
pub(super) fn named(name: &str) -> Option<&'static Printer> {
    PRINTERS.get(name)
}

pub(crate) fn default_printer() -> &'static Printer {
    &DEFAULT_PRINTER
}

/// Returns the definition of the Name column that all custom resources have.
pub(crate) fn name_column() -> &'static str {
    let definitions = definitions(DEFAULT).as_bytes();
    scan::elements(definitions)
        .next()
        .and_then(Result::ok)
        .and_then(|(_, column)| std::str::from_utf8(column).ok())
        .unwrap_or("{}")
}

/// Returns the documentation of creationTimestamp, which is the description of
/// Age.
pub(crate) fn creation_timestamp_description() -> String {
    let definitions = definitions(DEFAULT).as_bytes();
    scan::elements(definitions)
        .nth(1)
        .and_then(Result::ok)
        .and_then(|(_, column)| scan::text_at(column, &["description"]))
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
