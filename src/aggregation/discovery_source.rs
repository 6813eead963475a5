//! A server whose APIs are merged into discovery and OpenAPI.

use kubernetes_wire::api::GroupVersion;

use crate::documents::DocumentServer;

/// A server for discovery and OpenAPI: a backend, or this process itself.
#[derive(Clone)]
pub struct Source {
    /// `namespace/name` of the service, for the log and metrics. The name of this
    /// process' own API has no `/`.
    pub name: String,
    pub server: DocumentServer,
    /// The versions for which the server answers. Other versions that it serves are
    /// not shown.
    pub versions: Vec<SourceVersion>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceVersion {
    pub group_version: GroupVersion,
    pub group_priority_minimum: i32,
    pub version_priority: i32,
}
