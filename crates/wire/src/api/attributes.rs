//! The attributes by which an authorizer decides.

use super::GroupVersionResource;

/// The attributes of a request, as authorization.k8s.io/v1 SubjectAccessReview
/// has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Attributes {
    /// A request for a resource: `resourceAttributes` of a SubjectAccessReview.
    Resource {
        /// The verb in lower case: get, list, watch, create, …
        verb: String,
        /// The group, the version and the plural of the resource.
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
        /// The label selector from the query, like `field_selector`.
        label_selector: String,
    },
    /// Any other request, such as one for `/healthz`: `nonResourceAttributes`.
    NonResource {
        /// The lower-case HTTP method.
        verb: String,
        /// The path of the request, percent-decoded.
        path: String,
    },
}
