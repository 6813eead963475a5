//! The releases of Kubernetes whose printers are known, and what some of them
//! print otherwise than 1.37. Equal columns do not mean equal cells.

use std::ops::RangeInclusive;

use super::{PrintRow, Printer, Source, columns, jobs, networking, nodes, pods, simple, storage};
use crate::api::{GroupVersionResource, Release};

/// The minor releases of Kubernetes 1 whose printers
/// (`pkg/printers/internalversion`) were compared with those of 1.37. Nobody
/// knows what another release prints.
const KNOWN: RangeInclusive<u32> = 31..=37;

/// A resource that some releases print otherwise than 1.37.
struct Difference {
    resource: &'static str,
    minors: RangeInclusive<u32>,
    /// The cells in the same columns, or `None` for the columns Name and
    /// Created At.
    print: Option<PrintRow>,
}

const DIFFERENCES: [Difference; 7] = [
    // The error of a container is shown although another one completed since
    // 1.35.
    Difference {
        resource: "pods.v1",
        minors: 0..=34,
        print: Some(pods::print_before_1_35),
    },
    // The architecture follows the version of the kernel since 1.36.
    Difference {
        resource: "nodes.v1",
        minors: 0..=35,
        print: Some(nodes::print_before_1_36),
    },
    // SuccessCriteriaMet is a status since 1.34.
    Difference {
        resource: "jobs.v1.batch",
        minors: 0..=33,
        print: Some(jobs::print_job_before_1_34),
    },
    // The default class is marked since 1.36.
    Difference {
        resource: "ingressclasses.v1.networking.k8s.io",
        minors: 0..=35,
        print: Some(networking::print_ingress_class_before_1_36),
    },
    // The default class is not marked since 1.34.
    Difference {
        resource: "volumeattributesclasses.v1beta1.storage.k8s.io",
        minors: 0..=33,
        print: Some(simple::print_volume_attributes_class_before_1_34),
    },
    // A list marks only the newest of several default classes since 1.37, and
    // a class that is printed alone is not marked.
    Difference {
        resource: "storageclasses.v1.storage.k8s.io",
        minors: 0..=36,
        print: Some(storage::print_storage_class_before_1_37),
    },
    // Definitions have a printer since 1.37.
    Difference {
        resource: "customresourcedefinitions.v1.apiextensions.k8s.io",
        minors: 0..=36,
        print: None,
    },
];

/// Returns the printer of a built-in resource in a release, if both are known.
pub fn printer(gvr: &GroupVersionResource, release: Release) -> Option<Printer> {
    let printer = columns::printer(gvr)?;
    if release.major != 1 || !KNOWN.contains(&release.minor) {
        return None;
    }
    let name = gvr.to_string();
    let mut differences = DIFFERENCES.iter();
    match differences.find(|d| d.resource == name && d.minors.contains(&release.minor)) {
        Some(Difference { print: None, .. }) => Some(Printer::default_columns().clone()),
        Some(Difference {
            print: Some(print), ..
        }) => Some(printer.printing(Source::BuiltIn(*print))),
        None => Some(printer.clone()),
    }
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
            // These releases are not known.
            ("pods.v1", 30, 2, &pod, None),
            ("pods.v1", 38, 2, &pod, None),
        ] {
            let expected = expected.map(|text| format!("{:?}", super::super::Cell::text(text)));
            assert_eq!(cell(gvr, minor, at, object), expected, "{gvr} 1.{minor}");
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
