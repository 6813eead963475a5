//! A server whose APIs are shown among those of all.

use std::sync::Arc;

use apifront_upstream::Upstream;
use arc_swap::ArcSwap;
use kubernetes_wire::api::GroupVersion;

/// A backend as discovery and OpenAPI see it. Requests made with its `upstream`
/// carry apifront's own identity there.
#[derive(Clone)]
pub struct Source {
    /// `namespace/name` of the service, for the log and metrics.
    pub name: String,
    pub upstream: Arc<ArcSwap<Upstream>>,
    /// What it answers for. Whatever else it may serve is nobody's business.
    pub versions: Vec<SourceVersion>,
}

/// One APIService of a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceVersion {
    pub group_version: GroupVersion,
    pub group_priority_minimum: i32,
    pub version_priority: i32,
}
