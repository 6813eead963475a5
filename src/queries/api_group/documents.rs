//! The documents of the group.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde_json::Value;

use crate::documents::OwnDocuments;

/// The APIResourceList, as it is served.
const RESOURCES: &str = include_str!("resources.json");

/// The OpenAPI v2 document, without the definitions in [`META_V1`].
const OPENAPI: &str = include_str!("openapi.json");

/// Definitions of `meta/v1`, as kube-apiserver 1.37 has them. A merged document has them
/// once if upstream's are equal.
const META_V1: &str = include_str!("meta_v1.json");

/// Returns the documents, always the same ones.
pub(super) fn all() -> Arc<OwnDocuments> {
    static ALL: LazyLock<Arc<OwnDocuments>> = LazyLock::new(|| {
        Arc::new(OwnDocuments::new([
            (
                "/apis/query.apifront.dev/v1alpha1",
                Bytes::from_static(RESOURCES.as_bytes()),
            ),
            ("/openapi/v2", openapi().into()),
        ]))
    });
    ALL.clone()
}

/// Returns the OpenAPI v2 document without spaces between its tokens. Empty, which is
/// no document, if the data cannot be read: a test reads it.
fn openapi() -> Vec<u8> {
    let parse = |text| serde_json::from_str::<Value>(text).ok();
    let whole = || {
        let mut openapi = parse(OPENAPI)?;
        let definitions = openapi.get_mut("definitions")?.as_object_mut()?;
        let Value::Object(meta) = parse(META_V1)? else {
            return None;
        };
        definitions.extend(meta);
        serde_json::to_vec(&openapi).ok()
    };
    whole().unwrap_or_default()
}
