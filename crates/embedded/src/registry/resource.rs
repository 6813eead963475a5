//! A resource at one version, with everything the server knows about it.

use std::sync::Arc;

use kubernetes_wire::{
    api::{GroupResource, GroupVersionResource},
    representation::Printer,
};
use serde_json::Value;

use crate::schema::Schema;

/// A served resource. Strategies are data: what differs between kinds is said
/// here and nowhere else.
#[derive(Clone, Debug)]
pub struct Resource {
    pub gvr: GroupVersionResource,
    pub kind: String,
    pub list_kind: String,
    /// Empty for kinds that can only be created.
    pub singular: String,
    pub namespaced: bool,
    pub verbs: Verbs,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub storage_version_hash: String,
    pub subresources: Vec<Subresource>,
    pub fields: Fields,
    /// metadata.generation counts changes of everything but metadata and status.
    pub generation: bool,
    /// PUT of a missing object creates it.
    pub create_on_update: bool,
    /// PUT needs no resourceVersion.
    pub unconditional_update: bool,
    /// DELETE answers with the object, not with a Status.
    pub returns_deleted: bool,
    /// Text of the Warning header of every answer.
    pub warning: Option<String>,
    /// The paths where scale finds its numbers; built-in workloads have the usual
    /// ones.
    pub scale: Option<Scale>,
    /// `Some` for custom resources.
    pub custom: Option<Custom>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbs {
    All,
    /// Namespaces: no deletecollection.
    NoDeleteCollection,
    /// Reviews.
    CreateOnly,
}

impl Verbs {
    /// The verbs as discovery lists them. Custom resources have an order of their
    /// own.
    pub fn list(self, custom: bool) -> &'static [&'static str] {
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
pub enum Subresource {
    Status,
    Scale,
    Log,
    Finalize,
    Binding,
    Eviction,
}

impl Subresource {
    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Log => "log",
            Self::Finalize => "finalize",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
        }
    }

    pub fn verbs(self) -> &'static [&'static str] {
        match self {
            Self::Status | Self::Scale => &["get", "patch", "update"],
            Self::Log => &["get"],
            Self::Finalize => &["update"],
            Self::Binding | Self::Eviction => &["create"],
        }
    }

    /// Group, version and kind of its own, where it is not the parent's; both
    /// empty where they are the parent's.
    pub fn own_kind(self) -> Option<(&'static str, &'static str, &'static str)> {
        match self {
            Self::Scale => Some(("autoscaling", "v1", "Scale")),
            Self::Eviction => Some(("policy", "v1", "Eviction")),
            Self::Binding => Some(("", "", "Binding")),
            Self::Status | Self::Log | Self::Finalize => None,
        }
    }
}

/// Field selector labels and where their values are.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    /// Labels and JSON pointers of the fields beside metadata.name and
    /// metadata.namespace.
    pub extra: Vec<(String, String)>,
    /// Kinds with a conversion of their own word the error differently.
    pub own_error: bool,
}

/// JSON pointers of a scale subresource.
#[derive(Clone, Debug)]
pub struct Scale {
    pub spec_replicas: String,
    pub status_replicas: String,
    /// Points to a selector string (custom resources) or label selector object.
    pub selector: Option<String>,
}

/// The part of a resource that only custom resources have.
#[derive(Clone, Debug)]
pub struct Custom {
    /// The version objects are stored in.
    pub storage_version: String,
    /// Prints the additionalPrinterColumns; `None` if one of them cannot be read.
    pub printer: Option<Printer>,
    /// `None` if the version has no schema: everything goes.
    pub schema: Option<Arc<Schema>>,
    /// The schema as it was written, for OpenAPI.
    pub open_api: Option<Arc<Value>>,
}

impl Resource {
    pub fn group_resource(&self) -> GroupResource {
        self.gvr.group_resource()
    }

    pub fn api_version(&self) -> String {
        self.gvr.group_version().to_string()
    }

    /// The schema that objects must satisfy; built-in kinds have none here.
    pub fn schema(&self) -> Option<&Schema> {
        self.custom.as_ref()?.schema.as_deref()
    }

    /// These three behave in ways of their own.
    pub fn is_pod(&self) -> bool {
        self.kind == "Pod" && self.gvr.group.is_empty()
    }

    pub fn is_namespace(&self) -> bool {
        self.kind == "Namespace" && self.gvr.group.is_empty()
    }

    pub fn is_definition(&self) -> bool {
        self.gvr.group == "apiextensions.k8s.io" && self.gvr.resource == "customresourcedefinitions"
    }

    pub fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }

    /// The resource as error texts about invalid objects name it.
    pub fn kind_resource(&self) -> GroupResource {
        GroupResource {
            group: self.gvr.group.clone(),
            resource: self.kind.clone(),
        }
    }

    /// `namespace/name` or `name`.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("{namespace}/{name}")
        } else {
            name.to_owned()
        }
    }
}
