//! The attributes by which an authorizer decides.

use super::GroupVersionResource;

/// The attributes of a request, as authorization.k8s.io/v1 SubjectAccessReview
/// has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attributes {
    Resource {
        /// The verb in lower case: get, list, watch, create, …
        verb: String,
        gvr: GroupVersionResource,
        /// Empty for cluster-scoped requests and all namespaces.
        namespace: String,
        /// Empty for collections.
        name: String,
        /// Empty for the resource itself.
        subresource: String,
        /// The selector from the query. Only list, watch and deletecollection
        /// have one.
        field_selector: String,
        label_selector: String,
    },
    NonResource {
        /// The lower-case HTTP method.
        verb: String,
        path: String,
    },
}
