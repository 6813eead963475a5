//! A right to list namespaces inside team-a must not count as a right to list all
//! namespaces. kube-apiserver has no path `/api/v1/namespaces/team-a/namespaces`. A
//! server that authorizes it for team-a and answers it with every Namespace of the
//! cluster would leak these.

use bytes::Bytes;
use http::Method;
use serde_json::json;

use crate::harness::apifront::{Apifront, oracle};
use crate::harness::client::{Answer, Client, Protocol};
use crate::harness::cluster::Cluster;
use crate::harness::media_types::{JSON, PARTIAL, PARTIAL_LIST, PROTOBUF, TABLE, YAML};
use crate::harness::{eventually, objects};

const QUERIES: [&str; 9] = [
    "",
    "resourceVersion=0",
    "resourceVersion=0&limit=1",
    "resourceVersion=0&fieldSelector=metadata.name%3Dkube-system",
    "watch=1",
    "watch=1&resourceVersion=0",
    "watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dkube-system",
    "watch=1&resourceVersion=0&labelSelector=kubernetes.io%2Fmetadata.name%3Dkube-system",
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
];

/// Creates a user with the rules of `view` in a new namespace. Returns the
/// namespace, and the user's clients for kube-apiserver and apifront.
async fn viewer() -> (String, Client, Client) {
    let (cluster, front) = (Cluster::shared(), Apifront::shared());
    let admin = cluster.admin_client();
    let ns = cluster.namespace("scope").await;
    let user = format!("viewer-of-{ns}");
    let mut binding = objects::role_binding("view", "system:aggregate-to-view", "User", &user);
    binding["roleRef"]["kind"] = json!("ClusterRole");
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings");
    admin.post(&path, &binding).await.expect(201);
    let pair = cluster.certificates.client(&user, &[]);
    let (direct, through) = (cluster.client(Some(&pair)), front.client(Some(&pair)));
    let own = format!("/api/v1/namespaces/{ns}");
    eventually(
        "the right is known",
        std::time::Duration::from_secs(30),
        || async { direct.get(&own).await.status == 200 },
    )
    .await;
    for plural in ["namespaces", "nodes", "pods"] {
        let path = format!("/api/v1/{plural}?resourceVersion=0");
        front.warm(&front.admin_client(), &path).await;
    }
    (ns, direct, through)
}

async fn ask(client: &Client, method: &Method, target: &str, accept: &str) -> Answer {
    let headers = [("accept", accept), ("x-apifront-debug", "cache")];
    client
        .send(method.clone(), target, &headers, Bytes::new())
        .await
}

fn tells_of_others(answer: &Answer) -> bool {
    let named = |name: &str| {
        let name = name.as_bytes();
        answer.body.windows(name.len()).any(|window| window == name)
    };
    answer.status == 200 && (named("kube-public") || named("kube-system"))
}

#[tokio::test]
async fn a_right_in_one_namespace_is_none_to_list_all_of_them() {
    let (ns, direct, through) = viewer().await;
    let mut wrong = Vec::new();
    let mut asked = 0;
    for path in [
        format!("/api/v1/namespaces/{ns}/namespaces"),
        format!("/api/v1/namespaces/{ns}/namespaces/{ns}"),
        format!("/api/v1/namespaces/{ns}/namespaces/kube-system"),
        format!("/api/v1/namespaces/{ns}/namespaces/kube-system/status"),
        format!("/api/v1/namespaces/{ns}/namespaces/kube-system/pods"),
        format!("/api/v1/watch/namespaces/{ns}/namespaces"),
        format!("/api/v1/watch/namespaces/{ns}/namespaces/kube-system"),
        format!("/api/v1/namespaces/{ns}/nodes"),
        format!("/api/v1/watch/namespaces/{ns}/nodes"),
    ] {
        for query in QUERIES {
            for accept in [JSON, TABLE, PARTIAL, PARTIAL_LIST, PROTOBUF, YAML] {
                for method in [Method::GET, Method::HEAD] {
                    let target = format!("{path}?{query}&timeoutSeconds=1");
                    let (right, found) = tokio::join!(
                        ask(&direct, &method, &target, accept),
                        ask(&through, &method, &target, accept),
                    );
                    asked += 1;
                    let same = right.status == found.status && !found.is_hit();
                    assert!(!tells_of_others(&right), "{target}: {}", right.text());
                    if tells_of_others(&found) || !(same || oracle()) {
                        let (right, status) = (right.status, found.status);
                        let hit = found.header("x-apifront-cache");
                        let line = format!("{method} {target} as {accept}: {status}, {hit}");
                        wrong.push(format!("{line}; kube-apiserver: {right}"));
                    }
                }
            }
        }
    }
    let text = wrong.join("\n");
    assert!(wrong.is_empty(), "{} of {asked}:\n{text}", wrong.len());
}

/// Tests the same over HTTP/1.1, where other code writes watches.
#[tokio::test]
async fn nor_over_http1() {
    let (ns, _, through) = viewer().await;
    let through = through.over(Protocol::Http1);
    for query in [
        "resourceVersion=0",
        "watch=1&resourceVersion=0&timeoutSeconds=1",
    ] {
        for path in [
            format!("/api/v1/namespaces/{ns}/namespaces?{query}"),
            format!("/api/v1/watch/namespaces/{ns}/namespaces?{query}&timeoutSeconds=1"),
        ] {
            let answer = ask(&through, &Method::GET, &path, JSON).await;
            assert!(!tells_of_others(&answer), "{path}: {}", answer.text());
            assert!(
                matches!(answer.status.as_u16(), 403 | 404),
                "{path}: {}",
                answer.status
            );
        }
    }
}

#[tokio::test]
async fn the_own_namespace_is_still_served() {
    skip_under_oracle!("kube-apiserver does not say what came from its cache");
    let (ns, direct, through) = viewer().await;
    for path in [
        format!("/api/v1/namespaces/{ns}?resourceVersion=0"),
        format!("/api/v1/namespaces/{ns}/pods?resourceVersion=0"),
    ] {
        let right = ask(&direct, &Method::GET, &path, JSON).await;
        let found = ask(&through, &Method::GET, &path, JSON).await;
        assert_eq!(right.status, 200, "{path}: {}", right.text());
        assert_eq!(found.status, 200, "{path}: {}", found.text());
        assert!(
            found.is_hit(),
            "{path}: {}",
            found.header("x-apifront-cache")
        );
    }
}
