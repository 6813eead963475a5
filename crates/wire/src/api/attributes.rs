//! What an authorizer is asked about.

use super::GroupVersionResource;

/// The attributes of a request, as authorization.k8s.io/v1 SubjectAccessReview
/// has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attributes {
    Resource {
        /// Lower case: get, list, watch, create, …
        verb: String,
        gvr: GroupVersionResource,
        /// Empty for cluster-scoped requests and all namespaces.
        namespace: String,
        /// Empty for collections.
        name: String,
        /// Empty for the resource itself.
        subresource: String,
        /// As given in the query; only for list, watch and deletecollection.
        field_selector: String,
        label_selector: String,
    },
    NonResource {
        /// The lower-case HTTP method.
        verb: String,
        path: String,
    },
}
