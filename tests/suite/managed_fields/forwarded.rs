//! Reads that apifront leaves to upstream.

use super::{JSON, ask_both, quiet};
use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::expect::Expect;
use crate::harness::sample::NAMESPACE;

/// A server that ignores the parameter answers with whole objects, and so does apifront
/// before it, unless it is told to serve them itself.
#[tokio::test]
async fn upstream_decides_by_default() {
    let cluster = Cluster::quiet();
    let direct = cluster.admin_client();
    let front = Apifront::quiet().admin_client();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let (expected, got) = ask_both((&direct, JSON), (&front, JSON), &path).await;
    assert!(expected.text().contains("managedFields"));
    assert!(got.body == expected.body);
    let unmet = Expect::Bypass("representation").unmet(&got);
    assert!(unmet.is_empty(), "{unmet}");
}

/// Nothing else is dropped.
#[tokio::test]
async fn other_forms_are_forwarded() {
    skip_under_oracle!("kube-apiserver ignores the parameter");
    let direct = Cluster::quiet().admin_client();
    let apifront = quiet();
    let front = apifront.admin_client();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let (hit, bypass) = (Expect::Hit, Expect::Bypass("representation"));
    for (accept, expected) in [
        ("application/json;drop=", hit),
        ("application/json;drop", hit),
        ("application/json;drop=spec", bypass),
        ("application/json;drop=metadata.managedfields", bypass),
        (
            "application/json;drop=metadata.managedFields;drop=spec",
            bypass,
        ),
        ("application/yaml;drop=spec,application/json", bypass),
        ("application/json;Drop=metadata.managedFields", bypass),
        // The parameter of a clause that is not chosen changes nothing.
        (
            "application/json,application/yaml;drop=metadata.managedFields",
            hit,
        ),
    ] {
        let (direct, got) = ask_both((&direct, accept), (&front, accept), &path).await;
        assert_eq!(got.status, direct.status, "{accept}");
        assert_eq!(got.text(), direct.text(), "{accept}");
        let unmet = expected.unmet(&got);
        assert!(unmet.is_empty(), "{accept}: {unmet}");
    }
}
