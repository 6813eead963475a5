//! In which encoding a resource is read.
//!
//! Built-in kinds come as protobuf: half the bytes, and half the CPU upstream.
//! Two groups are stored as JSON by their API servers, which can tell an empty
//! list from none there; protobuf cannot, and so their JSON could not be made
//! from it.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use kubernetes_wire::api::GroupVersionResource;
use kubernetes_wire::representation::Encoding;
use kubernetes_wire::schema::Schema;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const EITHER: &str = "application/vnd.kubernetes.protobuf, application/json";

const STORED_AS_JSON: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

/// The Accept header for objects of a resource.
pub(super) fn accept(gvr: &GroupVersionResource, json_only: bool) -> &'static str {
    let api_version = gvr.group_version().to_string();
    let builtin = || {
        let mut kinds = Schema::builtin().kinds();
        kinds.any(|(version, ..)| version == api_version)
    };
    if json_only || STORED_AS_JSON.contains(&gvr.group.as_str()) || !builtin() {
        JSON
    } else {
        EITHER
    }
}

/// What an answer came in.
pub(super) fn encoding(headers: &HeaderMap) -> Encoding {
    let content_type = headers.get(CONTENT_TYPE).map(|v| v.as_bytes());
    match content_type {
        Some(value) if value.starts_with(PROTOBUF.as_bytes()) => Encoding::Protobuf,
        _ => Encoding::Json,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_kinds_are_read_as_protobuf() {
        for (group, version, expected) in [
            ("", "v1", EITHER),
            ("apps", "v1", EITHER),
            ("apps", "v7", JSON),
            ("example.com", "v1", JSON),
            ("apiextensions.k8s.io", "v1", JSON),
            ("apiregistration.k8s.io", "v1", JSON),
        ] {
            let gvr = GroupVersionResource::new(group, version, "x");
            assert_eq!(accept(&gvr, false), expected, "{gvr}");
            assert_eq!(accept(&gvr, true), JSON);
        }
    }
}
