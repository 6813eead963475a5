//! Compares every path and encoding where apifront adds nothing.

use http::Method;

use super::{compare_all, difference};
use crate::harness::apifront::Apifront;
use crate::harness::client::Protocol;
use crate::harness::cluster::Cluster;
use crate::harness::media_types::GROUP_DISCOVERY;

#[tokio::test]
async fn documents_are_upstreams_to_the_byte() {
    let (direct, front) = (
        Cluster::quiet().admin_client(),
        Apifront::quiet().admin_client(),
    );
    compare_all(
        &direct,
        &front,
        &[
            "/api",
            "/api/",
            "/apis",
            "/apis/",
            "/api/v1",
            "/api/v1/",
            "/api/v2",
            "/apis/apps",
            "/apis/apps/",
            "/apis/apps/v1",
            "/apis/apps/v1/",
            "/apis/apps/v2",
            "/apis/apiregistration.k8s.io",
            "/apis/apiregistration.k8s.io/v1",
            "/apis/apiextensions.k8s.io/v1",
            "/apis/autoscaling/v2",
            "/apis/authentication.k8s.io/v1",
            "/apis/nowhere.example.com",
            "/apis/nowhere.example.com/v1",
            "/apis//",
            "//apis",
            "/apis?pretty=true",
            "/api?pretty=1",
            "/apis/apps/v1?pretty=yes",
            "/apis?timeout=32s",
        ],
    )
    .await;
}

#[tokio::test]
async fn every_version_is_upstreams() {
    let (direct, front) = (
        Cluster::quiet().admin_client(),
        Apifront::quiet().admin_client(),
    );
    for version in super::versions(&direct).await {
        let path = format!("/apis/{}", version.split(' ').next().unwrap());
        for accept in [
            "application/json",
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
        ] {
            let headers = [("accept", accept)];
            let found = difference(&direct, &front, Method::GET, &path, &headers).await;
            assert!(found.is_empty(), "{found}");
        }
    }
}

#[tokio::test]
async fn methods_compression_and_who_asks() {
    let (direct, front) = (
        Cluster::quiet().admin_client(),
        Apifront::quiet().admin_client(),
    );
    let mut found = Vec::new();
    for path in [
        "/api",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/api/v1",
        "/apis/no.example.com",
    ] {
        for method in [
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::DELETE,
            Method::OPTIONS,
        ] {
            found.push(difference(&direct, &front, method, path, &[]).await);
        }
        for headers in [
            &[("user-agent", "curl/8")][..],
            &[("user-agent", "curl/8"), ("accept", GROUP_DISCOVERY)],
            &[("accept-encoding", "gzip"), ("accept", GROUP_DISCOVERY)],
            &[("x-forwarded-for", "10.96.0.7")],
        ] {
            found.push(difference(&direct, &front, Method::GET, path, headers).await);
        }
        let (direct, front) = (direct.over(Protocol::Http1), front.over(Protocol::Http1));
        found.push(
            difference(
                &direct,
                &front,
                Method::GET,
                path,
                &[("accept", GROUP_DISCOVERY)],
            )
            .await,
        );
        found.push(difference(&direct, &front, Method::HEAD, path, &[]).await);
    }
    found.retain(|d| !d.is_empty());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[tokio::test]
async fn what_was_not_modified_is_not_sent_again() {
    let (direct, front) = (
        Cluster::quiet().admin_client(),
        Apifront::quiet().admin_client(),
    );
    for path in ["/api", "/apis"] {
        let etag = direct
            .get_as(path, GROUP_DISCOVERY)
            .await
            .header("etag")
            .to_owned();
        for protocol in [Protocol::Http1, Protocol::Http2] {
            let (direct, front) = (direct.over(protocol), front.over(protocol));
            for (tag, accept) in [
                (etag.as_str(), GROUP_DISCOVERY),
                (
                    etag.as_str(),
                    "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
                ),
                (etag.as_str(), "application/json"),
                ("\"x\"", GROUP_DISCOVERY),
                (&format!("W/{etag}"), GROUP_DISCOVERY),
                (&format!("\"x\", {etag}"), GROUP_DISCOVERY),
                ("*", GROUP_DISCOVERY),
            ] {
                let headers = [("if-none-match", tag), ("accept", accept)];
                let found = difference(&direct, &front, Method::GET, path, &headers).await;
                assert!(found.is_empty(), "{found}");
            }
        }
        let headers = [
            ("if-none-match", etag.as_str()),
            ("accept", GROUP_DISCOVERY),
        ];
        let answer = front.send(Method::GET, path, &headers, "").await;
        assert_eq!(answer.status, 304);
        assert!(!answer.header("audit-id").is_empty());
    }
}

/// `system:discovery` lets every authenticated user read discovery, but no other
/// caller.
#[tokio::test]
async fn discovery_is_authorized() {
    let (cluster, front) = (Cluster::quiet(), Apifront::quiet());
    let nobody = cluster.certificates.client("nobody", &[]);
    let (direct, through) = (cluster.client(Some(&nobody)), front.client(Some(&nobody)));
    // apifront forwards a caller's first read of a version's document.
    through.get("/apis/apps/v1").await.expect(200);
    compare_all(
        &direct,
        &through,
        &["/apis", "/apis/apps", "/apis/apps/v1", "/metrics/slis"],
    )
    .await;
    let (direct, through) = (cluster.client(None), front.client(None));
    for path in ["/api", "/apis", "/apis/apps/v1"] {
        let headers = [
            ("authorization", "Bearer wrong"),
            ("accept", GROUP_DISCOVERY),
        ];
        let found = difference(&direct, &through, Method::GET, path, &headers).await;
        assert!(found.is_empty(), "{found}");
    }
}
