//! A resource at one version, with everything the server knows about it.

use std::sync::Arc;

use kubernetes_wire::{
    api::{GroupResource, GroupVersionResource},
    representation::Printer,
};
use serde_json::Value;

use crate::schema::Schema;

/// A served resource at one version. All differences between kinds are data of this
/// type.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub gvr: GroupVersionResource,
    pub kind: String,
    pub list_kind: String,
    /// The singular name. Empty for kinds that can only be created.
    pub singular: String,
    pub namespaced: bool,
    pub verbs: Verbs,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub storage_version_hash: String,
    pub subresources: Vec<Subresource>,
    pub fields: Fields,
    /// True if metadata.generation counts changes of everything except metadata
    /// and status.
    pub generation: bool,
    /// True if a PUT of a missing object creates it.
    pub create_on_update: bool,
    /// True if a PUT needs no resourceVersion.
    pub unconditional_update: bool,
    /// True if a DELETE is answered with the object, not with a Status.
    pub returns_deleted: bool,
    /// The warning in the Warning header of every answer.
    pub warning: Option<String>,
    /// The paths in the scale subresource. Built-in workloads have the usual paths.
    pub scale: Option<Scale>,
    /// `Some` for custom resources.
    pub custom: Option<Custom>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verbs {
    All,
    /// Namespaces have no deletecollection.
    NoDeleteCollection,
    /// Reviews can only be created.
    CreateOnly,
}

impl Verbs {
    /// Returns the verbs as discovery lists them. Custom resources have their
    /// own order.
    pub(crate) fn list(self, custom: bool) -> &'static [&'static str] {
        match self {
            Self::All if custom => &[
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "create",
                "update",
                "watch",
            ],
            Self::All => &[
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ],
            Self::NoDeleteCollection => &[
                "create", "delete", "get", "list", "patch", "update", "watch",
            ],
            Self::CreateOnly => &["create"],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subresource {
    Status,
    Scale,
    Log,
    Finalize,
    Binding,
    Eviction,
}

impl Subresource {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Log => "log",
            Self::Finalize => "finalize",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
        }
    }

    pub(crate) fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Status | Self::Scale => &["get", "patch", "update"],
            Self::Log => &["get"],
            Self::Finalize => &["update"],
            Self::Binding | Self::Eviction => &["create"],
        }
    }

    /// Returns the subresource's group, version and kind, if the kind is not
    /// the parent's. Group and version are empty if they are the parent's.
    pub(crate) fn own_kind(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Self::Scale => Some(("autoscaling", "v1", "Scale")),
            Self::Eviction => Some(("policy", "v1", "Eviction")),
            Self::Binding => Some(("", "", "Binding")),
            Self::Status | Self::Log | Self::Finalize => None,
        }
    }
}

/// The labels of field selectors and the places of their values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    /// Labels and JSON pointers of the fields beside metadata.name and
    /// metadata.namespace.
    pub extra: Vec<(String, String)>,
    /// True if the kind has its own conversion, whose error has other words.
    pub own_error: bool,
}

/// JSON pointers of a scale subresource.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    pub spec_replicas: String,
    pub status_replicas: String,
    /// The path of a selector string (custom resources) or of a label selector
    /// object.
    pub selector: Option<String>,
}

/// The part of a resource that only custom resources have.
#[derive(Clone, Debug)]
pub(crate) struct Custom {
    /// The version objects are stored in.
    pub storage_version: String,
    /// The printer of the additionalPrinterColumns; `None` if one of them
    /// cannot be read.
    pub printer: Option<Printer>,
    /// `None` if the version has no schema and so accepts every object.
    pub schema: Option<Arc<Schema>>,
    /// The schema as it was written in the definition, for OpenAPI.
    pub open_api: Option<Arc<Value>>,
}

impl Resource {
    pub(crate) fn group_resource(&self) -> GroupResource {
        self.gvr.group_resource()
    }

    pub(crate) fn api_version(&self) -> String {
        self.gvr.group_version().to_string()
    }

    /// Returns the schema that objects must satisfy. Built-in kinds have none
    /// here.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        self.custom.as_ref()?.schema.as_deref()
    }

    /// Pods, namespaces and definitions behave differently from all other
    /// kinds.
    pub(crate) fn is_pod(&self) -> bool {
        self.kind == "Pod" && self.gvr.group.is_empty()
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.kind == "Namespace" && self.gvr.group.is_empty()
    }

    pub(crate) fn is_definition(&self) -> bool {
        self.gvr.group == "apiextensions.k8s.io" && self.gvr.resource == "customresourcedefinitions"
    }

    pub(crate) fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }

    /// Returns the resource as error texts about invalid objects call it.
    pub(crate) fn kind_resource(&self) -> GroupResource {
        GroupResource {
            group: self.gvr.group.clone(),
            resource: self.kind.clone(),
        }
    }

    /// Returns `namespace/name` or `name`.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        }
    }
}
