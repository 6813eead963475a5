//! The selectable fields of built-in kinds.
//!
//! Source: kube-apiserver 1.37, the field label conversions of
//! `pkg/apis/*/*/conversion.go` (which labels) and the selectable fields of
//! `pkg/registry/*/*/strategy.go` (which values).

use kubernetes_wire::api::GroupVersionResource;

use super::{Field, FieldTable, Source, split};

/// A label and its value.
type Row = (&'static str, Value);

enum Value {
    /// The value at the label's own path, or this text if there is none.
    Own(&'static str),
    /// The value at another path, or this text if there is none.
    At(&'static str, &'static str),
    Either(&'static str, &'static str),
    Nothing,
}

use Value::{At, Either, Nothing, Own};

const TEXT: Value = Own("");
const NUMBER: Value = Own("0");
const BOOLEAN: Value = Own("false");

const PODS: &[Row] = &[
    ("spec.nodeName", TEXT),
    // The name of the field in clients before v1.
    ("spec.host", At("spec.nodeName", "")),
    ("spec.restartPolicy", TEXT),
    ("spec.schedulerName", TEXT),
    ("spec.serviceAccountName", TEXT),
    ("spec.hostNetwork", BOOLEAN),
    ("status.phase", TEXT),
    // The API server compares the first of podIPs. The two are kept the same.
    ("status.podIP", TEXT),
    // The label is accepted, but no object has a value for it.
    ("status.podIPs", Nothing),
    ("status.nominatedNodeName", TEXT),
];

const CORE_EVENTS: &[Row] = &[
    ("involvedObject.kind", TEXT),
    ("involvedObject.namespace", TEXT),
    ("involvedObject.name", TEXT),
    ("involvedObject.uid", TEXT),
    ("involvedObject.apiVersion", TEXT),
    ("involvedObject.resourceVersion", TEXT),
    ("involvedObject.fieldPath", TEXT),
    ("reason", TEXT),
    ("reportingComponent", TEXT),
    ("source", Either("source.component", "reportingComponent")),
    ("type", TEXT),
];

const EVENTS: &[Row] = &[
    ("regarding.kind", TEXT),
    ("regarding.namespace", TEXT),
    ("regarding.name", TEXT),
    ("regarding.uid", TEXT),
    ("regarding.apiVersion", TEXT),
    ("regarding.resourceVersion", TEXT),
    ("regarding.fieldPath", TEXT),
    ("reason", TEXT),
    ("reportingController", TEXT),
    ("type", TEXT),
];

const RESOURCE_SLICES: &[Row] = &[
    ("spec.nodeName", TEXT),
    ("spec.driver", TEXT),
    // Servers before 1.37 refuse this label.
    ("spec.pool.name", TEXT),
];

/// Returns the table for a resource. The table has no own fields if the
/// resource has none or is not known here.
pub fn field_table(gvr: &GroupVersionResource) -> FieldTable {
    let (rows, namespace): (&[Row], bool) = match (
        gvr.group.as_str(),
        gvr.version.as_str(),
        gvr.resource.as_str(),
    ) {
        ("", "v1", "pods") => (PODS, true),
        ("", "v1", "nodes") => (&[("spec.unschedulable", BOOLEAN)], false),
        ("", "v1", "namespaces") => (&[("status.phase", TEXT)], false),
        ("", "v1", "secrets") => (&[("type", TEXT)], true),
        ("", "v1", "services") => (&[("spec.clusterIP", TEXT), ("spec.type", TEXT)], true),
        ("", "v1", "replicationcontrollers") => (&[("status.replicas", NUMBER)], true),
        ("", "v1", "events") => (CORE_EVENTS, true),
        ("events.k8s.io", "v1", "events") => (EVENTS, true),
        ("batch", "v1", "jobs") => (&[("status.successful", At("status.succeeded", "0"))], true),
        ("certificates.k8s.io", "v1", "certificatesigningrequests")
        | ("certificates.k8s.io", "v1" | "v1alpha1" | "v1beta1", "clustertrustbundles") => {
            (&[("spec.signerName", TEXT)], false)
        }
        ("certificates.k8s.io", "v1" | "v1alpha1" | "v1beta1", "podcertificaterequests") => (
            &[
                ("spec.signerName", TEXT),
                ("spec.podName", TEXT),
                ("spec.nodeName", TEXT),
            ],
            false,
        ),
        ("resource.k8s.io", "v1" | "v1beta1" | "v1beta2", "resourceslices") => {
            (RESOURCE_SLICES, false)
        }
        _ => (&[], true),
    };
    let fields = rows.iter().map(|(label, value)| Field {
        label: (*label).to_owned(),
        source: match value {
            Own(absent) => Source::At(split(label), absent),
            At(path, absent) => Source::At(split(path), absent),
            Either(first, otherwise) => Source::Either(split(first), split(otherwise)),
            Nothing => Source::Nothing,
        },
    });
    FieldTable::new(fields.collect(), namespace)
}
