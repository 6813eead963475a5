//! The segments from which paths are built. Objects and namespaces have names that
//! are words of paths, so that a server that confuses the two serves something.

use crate::harness::media_types::{JSON, PARTIAL_LIST_OR_JSON, PARTIAL_OR_JSON, TABLE_OR_JSON};

/// The group of the custom resources, one of which is named `namespaces`.
pub const GROUP: &str = "matrix.example.test";
pub const RBAC: &str = "rbac.authorization.k8s.io";

/// The namespaces in addition to those of every cluster.
pub const NAMESPACES: [&str; 6] = ["team-a", "team-b", "pods", "status", "watch", "namespaces"];
/// The names of objects in each of those namespaces.
pub const NAMES: [&str; 3] = ["one", "status", "pods"];
pub const NODE: &str = "one";

/// The parts of a path before the resource.
pub const BASES: [&[&str]; 9] = [
    &["api", "v1"],
    &["api", "v1", "watch"],
    &["api", "v1", "proxy"],
    &["apis", "apps", "v1"],
    &["apis", "apps", "v1", "watch"],
    &["apis", RBAC, "v1"],
    &["apis", RBAC, "v1", "watch"],
    &["apis", GROUP, "v1"],
    &["apis", GROUP, "v1", "watch"],
];

/// The core words. All their sequences up to a length are requested.
pub const CORE: [&str; 10] = [
    "namespaces",
    "team-a",
    "team-b",
    "pods",
    "configmaps",
    "nodes",
    "watch",
    "status",
    "one",
    "",
];

/// The values of random segments.
pub const SEGMENTS: [&str; 57] = [
    "api",
    "apis",
    "v1",
    "apps",
    RBAC,
    GROUP,
    "watch",
    "proxy",
    "namespaces",
    "namespaces",
    "namespaces",
    "team-a",
    "team-a",
    "team-b",
    "team-b",
    "kube-system",
    "default",
    "pods",
    "pods",
    "configmaps",
    "configmaps",
    "secrets",
    "nodes",
    "clusterroles",
    "deployments",
    "widgets",
    "gadgets",
    "events",
    "one",
    "one",
    "status",
    "finalize",
    "log",
    "exec",
    "attach",
    "portforward",
    "scale",
    "ephemeralcontainers",
    "",
    "",
    ".",
    "..",
    "%2e",
    "%2E%2E",
    "%2F",
    "team-a%2Fpods",
    "namespaces%2Fteam-b",
    "team%2Da",
    "%6eamespaces",
    "%00",
    "%20",
    "%C3%A9",
    "Pods",
    "TEAM-A",
    "team-a;x",
    "*",
    "junk",
];

/// The kinds: the path before the plural, whether the kind is namespaced, and the
/// plural. All are in the cache before the comparison begins.
pub const KINDS: [(&[&str], bool, &str); 9] = [
    (&["api", "v1"], true, "pods"),
    (&["api", "v1"], true, "configmaps"),
    (&["api", "v1"], true, "secrets"),
    (&["api", "v1"], false, "namespaces"),
    (&["api", "v1"], false, "nodes"),
    (&["apis", "apps", "v1"], true, "deployments"),
    (&["apis", RBAC, "v1"], false, "clusterroles"),
    (&["apis", GROUP, "v1"], true, "widgets"),
    (&["apis", GROUP, "v1"], true, "namespaces"),
];

pub const SUBRESOURCES: [&str; 9] = [
    "status", "finalize", "log", "proxy", "exec", "scale", "pods", "one", "",
];

/// Queries of reads that end by themselves. Their selectors name other objects than
/// the path.
pub const QUERIES: [&str; 24] = [
    "",
    "",
    "resourceVersion=0",
    "resourceVersion=0",
    "resourceVersion=0",
    "resourceVersion=0",
    "resourceVersion=0&fieldSelector=metadata.name%3Dteam-b",
    "resourceVersion=0&fieldSelector=metadata.name%3Done",
    "resourceVersion=0&fieldSelector=metadata.name%3D%3Dkube-system",
    "resourceVersion=0&fieldSelector=metadata.namespace%3Dteam-b",
    "resourceVersion=0&fieldSelector=metadata.name%3Dteam-a&fieldSelector=metadata.name%3Dteam-b",
    "resourceVersion=0&fieldSelector=metadata.name%3Dteam-b&fieldSelector=",
    "resourceVersion=0&fieldSelector=metadata.name%3D..%2Fteam-b",
    "resourceVersion=0&labelSelector=team%3Db",
    "resourceVersion=0&labelSelector=team%3Da&labelSelector=team%3Db",
    "resourceVersion=0&labelSelector=kubernetes.io%2Fmetadata.name%3Dteam-b",
    "resourceVersion=0&limit=1",
    "limit=1",
    "resourceVersion=0&namespace=team-b&name=one&resource=secrets",
    "resourceVersion=0&unknown=1",
    "resourceVersion=0&timeout=10s",
    "resourceVersion=0&watch=0",
    "resourceVersion=0&pretty=true",
    "resourceVersion=1&resourceVersionMatch=NotOlderThan",
];

/// Queries that make a list a watch, or look like it.
pub const WATCHES: [&str; 7] = [
    "watch=1&resourceVersion=0",
    "watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dteam-b",
    "watch=true&resourceVersion=0&fieldSelector=metadata.name%3Done",
    "watch=1&resourceVersion=0&labelSelector=team%3Db",
    "watch=1",
    "watch&resourceVersion=0",
    "watch=0&watch=1&resourceVersion=0",
];

pub const ACCEPTS: [&str; 8] = [
    JSON,
    JSON,
    JSON,
    JSON,
    JSON,
    TABLE_OR_JSON,
    PARTIAL_OR_JSON,
    PARTIAL_LIST_OR_JSON,
];
