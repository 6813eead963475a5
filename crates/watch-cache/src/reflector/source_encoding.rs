//! Chooses the encoding in which a resource is read.
//!
//! Built-in kinds are read as protobuf, which takes half the bytes, and half
//! the CPU upstream. Others are read as JSON. So are objects whose JSON cannot
//! be made from protobuf. The API servers of two groups store JSON, in which an
//! empty list differs from a missing one, and protobuf does not show that
//! difference. Some releases have Go types that write other JSON than the
//! schema.

use http::HeaderMap;
use http::header::CONTENT_TYPE;
use kubernetes_wire::api::{GroupVersionResource, Release};
use kubernetes_wire::representation::Encoding;
use kubernetes_wire::schema::Schema;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const EITHER: &str = "application/vnd.kubernetes.protobuf, application/json";

const STORED_AS_JSON: [&str; 2] = ["apiextensions.k8s.io", "apiregistration.k8s.io"];

pub(super) fn accept(gvr: &GroupVersionResource, json_only: bool) -> &'static str {
    if json_only || STORED_AS_JSON.contains(&gvr.group.as_str()) || !is_built_in(gvr) {
        JSON
    } else {
        EITHER
    }
}

/// Tells whether Kubernetes' own Go types define the resource.
pub(super) fn is_built_in(gvr: &GroupVersionResource) -> bool {
    let api_version = gvr.group_version().to_string();
    let mut kinds = Schema::builtin().kinds();
    kinds.any(|(version, ..)| version == api_version)
}

/// Tells whether a release writes the same JSON of an object as the schema. The
/// releases' Go types were compared with those of the schema.
pub(super) fn is_written_alike(gvr: &GroupVersionResource, release: Option<Release>) -> bool {
    match release {
        Some(Release { major: 1, minor }) => match minor {
            // Releases before 1.34 write `"creationTimestamp":null` in the
            // metadata of templates.
            ..34 => false,
            // 1.37 writes the status of a CSI node even if it is empty. Earlier
            // releases do not write it.
            ..37 if gvr.group == "storage.k8s.io" && gvr.resource == "csinodes" => false,
            // 1.34 writes `"devices":null` in a slice without devices. Its
            // definitions have no observed generations, which protobuf always
            // has.
            34 => !matches!(
                gvr.group.as_str(),
                "resource.k8s.io" | "apiextensions.k8s.io"
            ),
            35..=37 => true,
            38.. => false,
        },
        _ => false,
    }
}

/// Tells whether a release writes the same lists as this cache. Releases before
/// 1.34 read all later pages from etcd, and begin the key in their continue
/// tokens without a slash. Their Tables without objects have no metadata. Later
/// Tables without objects show the metadata of an object that is annotated like
/// a bookmark.
///
/// `of_kubernetes` is true if kube-apiserver itself serves the resource. The
/// server of another resource may tell its own version, such as 1.2. That says
/// nothing about its lists, so they are taken to be the same.
pub(super) fn lists_alike(of_kubernetes: bool, release: Option<Release>) -> bool {
    match release {
        Some(Release { major: 1, minor }) if (20..34).contains(&minor) => false,
        Some(Release { major: 1, minor }) if (34..=37).contains(&minor) => true,
        _ => !of_kubernetes,
    }
}

/// Tells whether a page of a shard says how many objects remain. Only 1.36, the
/// first release with shards, does that.
pub(super) fn counts_shards(release: Option<Release>) -> bool {
    release == Some(Release::from((1, 36)))
}

/// Tells whether a release of Kubernetes writes `"creationTimestamp":null` in
/// metadata without a creation time. Releases before 1.34 do.
pub(super) fn writes_null_times(release: Option<Release>) -> bool {
    release.is_some_and(|release| release < Release::from((1, 34)))
}

/// Tells whether a release of kube-apiserver compresses watches that begin with
/// a list. Releases since 1.37 do.
pub(super) fn compresses_watches(release: Option<Release>) -> bool {
    release.is_some_and(|release| release >= Release::from((1, 37)))
}

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

    #[test]
    fn releases_with_other_json_are_read_as_json() {
        for (group, release, expected) in [
            ("apps", Some((1, 33)), false),
            ("apps", Some((1, 34)), true),
            ("apps", Some((1, 37)), true),
            ("apps", Some((1, 38)), false),
            ("apps", Some((2, 36)), false),
            ("apps", None, false),
            ("apiextensions.k8s.io", Some((1, 34)), false),
            ("apiextensions.k8s.io", Some((1, 35)), true),
            ("resource.k8s.io", Some((1, 34)), false),
            ("resource.k8s.io", Some((1, 35)), true),
            ("storage.k8s.io", Some((1, 36)), false),
            ("storage.k8s.io", Some((1, 37)), true),
        ] {
            let resource = if group == "storage.k8s.io" {
                "csinodes"
            } else {
                "x"
            };
            let gvr = GroupVersionResource::new(group, "v1", resource);
            let alike = is_written_alike(&gvr, release.map(Release::from));
            assert_eq!(alike, expected, "{group} {release:?}");
        }
    }

    #[test]
    fn lists_are_those_of_1_34() {
        for (of_kubernetes, release, expected) in [
            (true, Some((1, 33)), false),
            (true, Some((1, 34)), true),
            (true, Some((1, 37)), true),
            (true, Some((1, 38)), false),
            (true, None, false),
            (false, Some((1, 2)), true),
            (false, Some((1, 33)), false),
            (false, None, true),
        ] {
            let alike = lists_alike(of_kubernetes, release.map(Release::from));
            assert_eq!(alike, expected, "{of_kubernetes} {release:?}");
        }
    }
}
