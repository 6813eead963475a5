//! The API group, as discovery and OpenAPI show it. Its documents are data: the
//! APIResourceList, and the OpenAPI v2 document, from which that of v3 is made.

mod documents;
#[cfg(test)]
mod tests;

use kubernetes_wire::api::{GroupResource, GroupVersion, GroupVersionResource};

use crate::aggregation::{Source, SourceVersion};
use crate::documents::DocumentServer;

pub const GROUP: &str = "query.apifront.dev";
const VERSION: &str = "v1alpha1";
pub const KIND: &str = "Query";

/// The priorities of the group and of its version. kube-aggregator's documentation
/// recommends them for groups that are not part of Kubernetes.
const GROUP_PRIORITY_MINIMUM: i32 = 1000;
const VERSION_PRIORITY: i32 = 15;

/// Returns the resource whose creation is a query.
pub fn queries() -> GroupVersionResource {
    GroupVersionResource::new(GROUP, VERSION, "queries")
}

/// Returns the group as a source of discovery and OpenAPI.
pub fn source() -> Source {
    Source {
        name: GROUP.to_owned(),
        server: DocumentServer::Own(documents::all()),
        versions: vec![SourceVersion {
            group_version: group_version(),
            group_priority_minimum: GROUP_PRIORITY_MINIMUM,
            version_priority: VERSION_PRIORITY,
        }],
    }
}

/// Returns the kind, as errors about a Query name it.
pub fn kind() -> GroupResource {
    GroupResource {
        group: GROUP.to_owned(),
        resource: KIND.to_owned(),
    }
}

pub fn group_version() -> GroupVersion {
    queries().group_version()
}
