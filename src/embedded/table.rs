//! The seam where Tables come from.
//!
//! The server negotiates and finds the objects; a [`TableRenderer`] makes
//! `meta.k8s.io/v1 Table` of them. Without one, a clause that asks for Tables is
//! passed over and clients get plain JSON, if they accept it.

use bytes::Bytes;
use serde_json::Value;

use super::view::ListMeta;
use crate::api::GroupVersionResource;

/// The `includeObject` parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncludeObject {
    None,
    Metadata,
    Object,
}

/// What a Table is made of.
pub struct TableRequest<'a> {
    pub resource: &'a GroupVersionResource,
    /// `additionalPrinterColumns` of a custom resource, null if it declares
    /// none; `None` for built-in resources.
    pub columns: Option<&'a Value>,
    /// Whole objects, with kind and apiVersion, in JSON.
    pub objects: &'a [Bytes],
    pub metadata: &'a ListMeta,
    /// `meta.k8s.io/v1` or `meta.k8s.io/v1beta1`.
    pub api_version: &'a str,
    pub include_object: IncludeObject,
    /// False in watch events after the first, which repeat no columns.
    pub column_definitions: bool,
}

pub trait TableRenderer: Send + Sync {
    /// Whether this resource can be shown; asked during negotiation.
    fn supports(&self, resource: &GroupVersionResource) -> bool;

    /// The Table in JSON, without a final newline; `None` if an object cannot
    /// be read, and then it is sent as it is.
    fn render(&self, request: &TableRequest<'_>) -> Option<Vec<u8>>;
}
