//! The fields that selectors may name, per resource.
//!
//! `metadata.name` and `metadata.namespace` work for every resource. What else
//! is selectable is compiled into kube-apiserver per kind; the table holds the
//! ones whose value is a plain field of the object. A selector on anything
//! else is answered upstream.

use std::borrow::Cow;
use std::sync::Arc;

use crate::api::GroupVersionResource;
use crate::representation::scan;

/// One selectable field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// As selectors spell it.
    pub label: Cow<'static, str>,
    /// Where the value is in the object.
    pub path: Cow<'static, str>,
    /// What an absent value compares as.
    pub absent: &'static str,
}

/// The selectable fields of one resource, in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldTable(Arc<[Field]>);

const fn text(label: &'static str) -> Field {
    Field {
        label: Cow::Borrowed(label),
        path: Cow::Borrowed(label),
        absent: "",
    }
}

const PODS: &[Field] = &[
    text("spec.nodeName"),
    text("spec.restartPolicy"),
    text("spec.schedulerName"),
    text("spec.serviceAccountName"),
    text("status.phase"),
    text("status.nominatedNodeName"),
];
const NODES: &[Field] = &[Field {
    label: Cow::Borrowed("spec.unschedulable"),
    path: Cow::Borrowed("spec.unschedulable"),
    absent: "false",
}];
const NAMESPACES: &[Field] = &[text("status.phase")];
const SECRETS: &[Field] = &[text("type")];
const SERVICES: &[Field] = &[text("spec.clusterIP"), text("spec.type")];
const CERTIFICATE_SIGNING_REQUESTS: &[Field] = &[text("spec.signerName")];

/// The table for a resource; an empty one for those that have no own fields.
pub fn field_table(gvr: &GroupVersionResource) -> FieldTable {
    FieldTable(
        match (
            gvr.group.as_str(),
            gvr.version.as_str(),
            gvr.resource.as_str(),
        ) {
            ("", "v1", "pods") => PODS,
            ("", "v1", "nodes") => NODES,
            ("", "v1", "namespaces") => NAMESPACES,
            ("", "v1", "secrets") => SECRETS,
            ("", "v1", "services") => SERVICES,
            ("certificates.k8s.io", "v1", "certificatesigningrequests") => {
                CERTIFICATE_SIGNING_REQUESTS
            }
            _ => &[],
        }
        .into(),
    )
}

impl FieldTable {
    /// The `selectableFields` of a CustomResourceDefinition's version.
    pub fn custom<'p>(json_paths: impl Iterator<Item = &'p str>) -> Self {
        let field = |path: &str| {
            let label = path.strip_prefix('.').unwrap_or(path).to_owned();
            Field {
                path: label.clone().into(),
                label: label.into(),
                absent: "",
            }
        };
        Self(json_paths.map(field).collect())
    }

    pub(super) fn index(&self, label: &str) -> Option<usize> {
        self.0.iter().position(|f| f.label == label)
    }

    /// The values of an object, in the table's order.
    pub(super) fn values(&self, object: &[u8]) -> Box<[Box<str>]> {
        self.0
            .iter()
            .map(|f| match scan::field_value(object, &f.path) {
                Some(value) => value.into(),
                None => f.absent.into(),
            })
            .collect()
    }
}
