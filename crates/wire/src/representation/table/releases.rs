//! The releases of Kubernetes whose printers are known, and where they print
//! differently from 1.37. Equal columns do not mean equal cells.

use std::ops::RangeInclusive;

use super::{PrintRow, Printer, Source, columns};
use super::{core, jobs, networking, nodes, pods, quotas, scheduling, simple, storage};
use crate::api::{GroupVersionResource, Release};

/// The minor releases of Kubernetes 1 whose printers
/// (`pkg/printers/internalversion`) were compared with those of 1.37. The output of
/// other releases is not known.
const KNOWN_MINORS: RangeInclusive<u32> = 31..=37;

/// A resource that some releases print differently from 1.37.
struct Difference {
    resource: &'static str,
    minors: RangeInclusive<u32>,
    /// The cells, or `None` for the columns Name and Created At.
    print: Option<PrintRow>,
    /// The columns if they differ from those of 1.37. They have no descriptions:
    /// upstream's columns are shown, and two columns are the same if they are equal
    /// without descriptions.
    columns: Option<&'static str>,
}

const SERVICE_ACCOUNT_BEFORE_1_35: &str = r#"[
{"name":"Name","type":"string","format":"name","priority":0},
{"name":"Secrets","type":"string","format":"","priority":0},
{"name":"Age","type":"string","format":"","priority":0}]"#;

const RESOURCE_QUOTA_BEFORE_1_33: &str = r#"[
{"name":"Name","type":"string","format":"name","priority":0},
{"name":"Age","type":"string","format":"","priority":0},
{"name":"Request","type":"string","format":"","priority":0},
{"name":"Limit","type":"string","format":"","priority":0}]"#;

const PRIORITY_CLASS_BEFORE_1_32: &str = r#"[
{"name":"Name","type":"string","format":"name","priority":0},
{"name":"Value","type":"integer","format":"","priority":0},
{"name":"Global-Default","type":"boolean","format":"","priority":0},
{"name":"Age","type":"string","format":"","priority":0}]"#;

/// Versions that 1.37 does not have, and their replacements. A release prints all
/// versions of a kind alike, because it prints its internal type. The printed
/// fields have the same names in both versions.
const REPLACED: [(&str, &str); 12] = [
    (
        "validatingadmissionpolicies.v1alpha1.admissionregistration.k8s.io",
        "validatingadmissionpolicies.v1.admissionregistration.k8s.io",
    ),
    (
        "validatingadmissionpolicies.v1beta1.admissionregistration.k8s.io",
        "validatingadmissionpolicies.v1.admissionregistration.k8s.io",
    ),
    (
        "validatingadmissionpolicybindings.v1alpha1.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.v1.admissionregistration.k8s.io",
    ),
    (
        "validatingadmissionpolicybindings.v1beta1.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.v1.admissionregistration.k8s.io",
    ),
    (
        "flowschemas.v1beta3.flowcontrol.apiserver.k8s.io",
        "flowschemas.v1.flowcontrol.apiserver.k8s.io",
    ),
    (
        "prioritylevelconfigurations.v1beta3.flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations.v1.flowcontrol.apiserver.k8s.io",
    ),
    (
        "deviceclasses.v1alpha3.resource.k8s.io",
        "deviceclasses.v1beta1.resource.k8s.io",
    ),
    (
        "resourceclaimtemplates.v1alpha3.resource.k8s.io",
        "resourceclaimtemplates.v1beta1.resource.k8s.io",
    ),
    (
        "resourceslices.v1alpha3.resource.k8s.io",
        "resourceslices.v1beta1.resource.k8s.io",
    ),
    (
        "volumeattributesclasses.v1alpha1.storage.k8s.io",
        "volumeattributesclasses.v1beta1.storage.k8s.io",
    ),
    (
        "workloads.v1alpha1.scheduling.k8s.io",
        "workloads.v1alpha3.scheduling.k8s.io",
    ),
    (
        "workloads.v1alpha2.scheduling.k8s.io",
        "workloads.v1alpha3.scheduling.k8s.io",
    ),
];

const DIFFERENCES: [Difference; 10] = [
    // Since 1.35, the error of a container is shown although another container has
    // completed.
    Difference {
        resource: "pods.v1",
        minors: 0..=34,
        print: Some(pods::print_before_1_35),
        columns: None,
    },
    // Since 1.36, the architecture follows the version of the kernel.
    Difference {
        resource: "nodes.v1",
        minors: 0..=35,
        print: Some(nodes::print_before_1_36),
        columns: None,
    },
    // Since 1.34, SuccessCriteriaMet is a status.
    Difference {
        resource: "jobs.v1.batch",
        minors: 0..=33,
        print: Some(jobs::print_job_before_1_34),
        columns: None,
    },
    // Since 1.36, the default class is marked.
    Difference {
        resource: "ingressclasses.v1.networking.k8s.io",
        minors: 0..=35,
        print: Some(networking::print_ingress_class_before_1_36),
        columns: None,
    },
    // Since 1.34, the default class is not marked.
    Difference {
        resource: "volumeattributesclasses.v1beta1.storage.k8s.io",
        minors: 0..=33,
        print: Some(simple::print_volume_attributes_class_before_1_34),
        columns: None,
    },
    // Since 1.37, a list marks only the newest of several default classes, and a
    // class alone is not marked.
    Difference {
        resource: "storageclasses.v1.storage.k8s.io",
        minors: 0..=36,
        print: Some(storage::print_storage_class_before_1_37),
        columns: None,
    },
    // Since 1.37, definitions have a printer.
    Difference {
        resource: "customresourcedefinitions.v1.apiextensions.k8s.io",
        minors: 0..=36,
        print: None,
        columns: None,
    },
    // Since 1.35, secrets are not counted.
    Difference {
        resource: "serviceaccounts.v1",
        minors: 0..=34,
        print: Some(core::print_service_account_before_1_35),
        columns: Some(SERVICE_ACCOUNT_BEFORE_1_35),
    },
    // Since 1.33, the age is the last column.
    Difference {
        resource: "resourcequotas.v1",
        minors: 0..=32,
        print: Some(quotas::print_before_1_33),
        columns: Some(RESOURCE_QUOTA_BEFORE_1_33),
    },
    // Since 1.32, the policy is a column.
    Difference {
        resource: "priorityclasses.v1.scheduling.k8s.io",
        minors: 0..=31,
        print: Some(scheduling::print_priority_class_before_1_32),
        columns: Some(PRIORITY_CLASS_BEFORE_1_32),
    },
];

/// Returns the printer of a version that only older releases have.
pub(crate) fn replacement(gvr: &GroupVersionResource) -> Option<&'static Printer> {
    columns::named(replaced(&gvr.to_string())?)
}

fn replaced(name: &str) -> Option<&'static str> {
    let mut replaced = REPLACED.iter();
    replaced.find(|(old, _)| *old == name).map(|(_, new)| *new)
}

/// Returns the printer of a built-in resource in a release, if both are known.
pub(crate) fn printer(gvr: &GroupVersionResource, release: Release) -> Option<Printer> {
    let name = gvr.to_string();
    let name = replaced(&name).unwrap_or(&name);
    let printer = columns::named(name)?;
    if release.major != 1 || !KNOWN_MINORS.contains(&release.minor) {
        return None;
    }
    let mut differences = DIFFERENCES.iter();
    let found = differences.find(|d| d.resource == name && d.minors.contains(&release.minor));
    let Some(Difference { print, columns, .. }) = found else {
        return Some(printer.clone());
    };
    let Some(print) = print else {
        return Some(Printer::default_columns().clone());
    };
    let printer = printer.printing(Source::BuiltIn(*print));
    Some(match columns {
        Some(columns) => printer.with_columns(columns),
        None => printer,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resource(name: &str) -> GroupVersionResource {
        let mut parts = name.splitn(3, '.');
        let (resource, version) = (parts.next().unwrap(), parts.next().unwrap());
        GroupVersionResource::new(parts.next().unwrap_or(""), version, resource)
    }

    /// Returns the cell of `object` in a column before 1.`minor`. `None` if
    /// only the server prints it.
    fn cell(name: &str, minor: u32, at: usize, object: &serde_json::Value) -> Option<String> {
        let printer = printer(&resource(name), Release::from((1, minor)))?;
        let row = printer.cells().row(object.to_string().as_bytes()).unwrap();
        Some(format!("{:?}", row.cells[at]))
    }

    #[test]
    fn cells_differ_between_releases_where_the_printers_do() {
        let pod = json!({
            "metadata": { "name": "a" },
            "status": { "phase": "Running", "containerStatuses": [
                { "name": "done", "state": { "terminated": { "exitCode": 0, "reason": "Completed" } } },
                { "name": "failed", "state": { "terminated": { "exitCode": 1, "reason": "Error" } } },
            ] },
        });
        let node = json!({
            "metadata": { "name": "a" },
            "status": { "nodeInfo": { "kernelVersion": "6.1", "architecture": "amd64" } },
        });
        let job = json!({
            "metadata": { "name": "a" },
            "status": { "conditions": [{ "type": "SuccessCriteriaMet", "status": "True" }] },
        });
        let default = |key: &str| json!({ "metadata": { "name": "a", "annotations": { key: "true" } }, "spec": {} });
        let ingress = default("ingressclass.kubernetes.io/is-default-class");
        let attributes = default("volumeattributesclass.alpha.kubernetes.io/is-default-class");
        let storage = default("storageclass.kubernetes.io/is-default-class");
        let ingress_classes = "ingressclasses.v1.networking.k8s.io";
        let attributes_classes = "volumeattributesclasses.v1beta1.storage.k8s.io";
        let storage_classes = "storageclasses.v1.storage.k8s.io";
        let definitions = "customresourcedefinitions.v1.apiextensions.k8s.io";
        let quota = json!({
            "metadata": { "name": "a" },
            "status": { "hard": { "pods": "2" }, "used": { "pods": "1" } },
        });
        let level_v1beta3 = "prioritylevelconfigurations.v1beta3.flowcontrol.apiserver.k8s.io";
        let level = json!({ "metadata": { "name": "a" }, "spec": { "type": "Exempt" } });
        let definition = json!({ "metadata": { "name": "a" }, "spec": { "scope": "Cluster" } });
        for (gvr, minor, at, object, expected) in [
            ("pods.v1", 34, 2, &pod, Some("Completed")),
            ("pods.v1", 35, 2, &pod, Some("Error")),
            ("nodes.v1", 35, 8, &node, Some("6.1")),
            ("nodes.v1", 36, 8, &node, Some("6.1 (amd64)")),
            ("jobs.v1.batch", 33, 1, &job, Some("Running")),
            ("jobs.v1.batch", 34, 1, &job, Some("SuccessCriteriaMet")),
            (ingress_classes, 35, 0, &ingress, Some("a")),
            (ingress_classes, 36, 0, &ingress, Some("a (default)")),
            (attributes_classes, 33, 0, &attributes, Some("a (default)")),
            (attributes_classes, 34, 0, &attributes, Some("a")),
            (storage_classes, 36, 0, &storage, Some("a (default)")),
            (storage_classes, 37, 0, &storage, Some("a")),
            (
                definitions,
                36,
                1,
                &definition,
                Some("0001-01-01T00:00:00Z"),
            ),
            (definitions, 37, 1, &definition, Some("Cluster")),
            ("resourcequotas.v1", 32, 2, &quota, Some("pods: 1/2")),
            ("resourcequotas.v1", 33, 1, &quota, Some("pods: 1/2")),
            (level_v1beta3, 31, 1, &level, Some("Exempt")),
            // These releases are not known.
            ("pods.v1", 30, 2, &pod, None),
            ("pods.v1", 38, 2, &pod, None),
        ] {
            let expected =
                expected.map(|text| format!("{:?}", super::super::row::Cell::text(text)));
            assert_eq!(cell(gvr, minor, at, object), expected, "{gvr} 1.{minor}");
        }
    }

    /// Columns are compared with upstream's, without descriptions.
    #[test]
    fn columns_are_those_of_the_release() {
        for (name, minor, cells) in [
            ("serviceaccounts.v1", 34, 3),
            ("serviceaccounts.v1", 35, 2),
            ("resourcequotas.v1", 32, 4),
            ("priorityclasses.v1.scheduling.k8s.io", 31, 4),
            ("priorityclasses.v1.scheduling.k8s.io", 32, 5),
            ("workloads.v1alpha1.scheduling.k8s.io", 35, 2),
        ] {
            let printer = printer(&resource(name), Release::from((1, minor))).unwrap();
            let columns: Vec<serde_json::Value> = serde_json::from_str(&printer.columns).unwrap();
            let object = br#"{"metadata":{"name":"a"},"secrets":[{"name":"s"}]}"#;
            let row = printer.cells().row(object).unwrap();
            assert_eq!(
                (columns.len(), row.cells.len()),
                (cells, cells),
                "{name} {minor}"
            );
            let table = format!(r#"{{"columnDefinitions":{}}}"#, printer.columns);
            assert!(
                printer.with_columns_of(table.as_bytes()).is_some(),
                "{name}"
            );
        }
    }

    #[test]
    fn versions_that_were_replaced_are_not_those_of_1_37() {
        for (old, new) in &REPLACED {
            assert!(columns::named(old).is_none(), "{old}");
            assert!(columns::named(new).is_some(), "{new}");
        }
    }

    #[test]
    fn differences_name_resources_that_are_printed() {
        for difference in &DIFFERENCES {
            let gvr = resource(difference.resource);
            assert!(columns::printer(&gvr).is_some(), "{gvr}");
        }
    }
}
