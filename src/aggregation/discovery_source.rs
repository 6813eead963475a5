//! A server whose APIs are merged into discovery and OpenAPI.

use std::sync::Arc;

use apifront_upstream::Upstream;
use arc_swap::ArcSwap;
use kubernetes_wire::api::GroupVersion;

/// A backend for discovery and OpenAPI. Requests to `upstream` carry apifront's own
/// identity.
#[derive(Clone)]
pub struct Source {
    /// `namespace/name` of the service, for the log and metrics.
    pub name: String,
    pub upstream: Arc<ArcSwap<Upstream>>,
    /// The versions for which the backend answers. Other versions that it serves are
    /// not shown.
    pub versions: Vec<SourceVersion>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceVersion {
    pub group_version: GroupVersion,
    pub group_priority_minimum: i32,
    pub version_priority: i32,
}
