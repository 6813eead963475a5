//! Watches whose path names the verb, `/api/v1/watch/…`, come from the cache and
//! equal kube-apiserver's to the byte.

use http::Method;
use serde_json::json;

use crate::harness::apifront::{Apifront, oracle as is_oracle};
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::differential::Differential;
use crate::harness::expect::Expect;
use crate::harness::media_types::{PARTIAL, PROTOBUF, TABLE};
use crate::harness::objects;
use crate::harness::sample::{GROUP, NAMESPACE};
use crate::harness::watch::Watch;

fn oracle() -> Differential {
    let cluster = Cluster::quiet();
    Differential::new(cluster.admin_client(), cluster.admin_client())
}

fn through_apifront() -> Differential {
    let cluster = Cluster::quiet();
    Differential::new(cluster.admin_client(), Apifront::quiet().admin_client())
}

async fn compare(mut both: Differential, asked: &[(Expect, String, &str)]) {
    let shared = &both;
    let questions = asked.iter().map(|(expected, path, accept)| async move {
        let headers = [("accept", *accept)];
        shared
            .difference(*expected, Method::GET, path, &headers, "")
            .await
    });
    let found = futures::future::join_all(questions).await;
    both.add(found);
    both.finish();
}

/// Returns watch paths in all forms: of all namespaces, of one namespace, of one
/// object, and of an object that does not exist.
fn paths() -> Vec<String> {
    let mut paths = Vec::new();
    for (base, resource, name) in [
        ("/api/v1", "pods", "running"),
        ("/api/v1", "services", "kubernetes"),
        ("/api/v1", "configmaps", "kube-root-ca.crt"),
        ("/apis/apps/v1", "deployments", "none"),
        (&format!("/apis/{GROUP}/v1"), "widgets", "red"),
    ] {
        paths.push(format!("{base}/watch/{resource}"));
        for namespace in [NAMESPACE, "default"] {
            let list = format!("{base}/watch/namespaces/{namespace}/{resource}");
            paths.push(format!("{list}/{name}"));
            paths.push(list);
        }
        // This path does not exist, since it lacks the object's namespace.
        paths.push(format!("{base}/watch/{resource}/{name}"));
    }
    for (base, resource, name) in [
        ("/api/v1", "namespaces", NAMESPACE),
        ("/api/v1", "nodes", "node-1"),
        (
            "/apis/rbac.authorization.k8s.io/v1",
            "clusterroles",
            "cluster-admin",
        ),
    ] {
        let list = format!("{base}/watch/{resource}");
        paths.push(format!("{list}/{name}"));
        paths.push(format!("{list}/no-such-object"));
        paths.push(list);
    }
    paths
}

/// Tells whether the path names an object of a namespaced kind without its
/// namespace. No server has such a watch.
fn is_nowhere(path: &str) -> bool {
    let rest = path.split_once("/watch/").map_or("", |(_, rest)| rest);
    let named = rest.split_once('/');
    named.is_some_and(|(resource, _)| {
        ["pods", "services", "configmaps", "deployments", "widgets"].contains(&resource)
    })
}

fn expected(path: &str, accept: &str) -> Expect {
    if is_nowhere(path) {
        Expect::Bypass("unusual_request")
    } else if accept == PROTOBUF && path.contains("/widgets") {
        // Custom resources have no protobuf: the answer is 406.
        Expect::Bypass("representation")
    } else {
        Expect::Hit
    }
}

async fn all_forms(both: Differential) {
    let mut asked = Vec::new();
    for path in paths() {
        for query in ["", "resourceVersion=0", "watch=1&resourceVersion=0"] {
            for accept in ["application/json", TABLE, PARTIAL, PROTOBUF] {
                let expected = expected(&path, accept);
                let path = format!("{path}?{query}&timeoutSeconds=1");
                asked.push((expected, path, accept));
            }
        }
    }
    compare(both, &asked).await;
}

async fn options(both: Differential) {
    use Expect::{Bypass, Hit, NotAsked};
    let invalid = Bypass("invalid_options");
    let json = "application/json";
    let mut asked = Vec::new();
    let one = format!("/api/v1/watch/namespaces/{NAMESPACE}/pods/running");
    for (expected, selector) in [
        (Hit, "fieldSelector=metadata.name%3Drunning"),
        (Hit, "fieldSelector=metadata.name%3D%3Drunning"),
        (
            Hit,
            "fieldSelector=metadata.name%3Drunning,spec.nodeName%3Dnode-1",
        ),
        (
            Hit,
            "fieldSelector=metadata.name%3Drunning,spec.nodeName%3Dnowhere",
        ),
        (
            Bypass("field_selector"),
            "fieldSelector=metadata.name%3Drunning,spec.nothing%3Dx",
        ),
        (invalid, "fieldSelector=metadata.name%3Dother"),
        (invalid, "fieldSelector=metadata.name!%3Drunning"),
        (invalid, "fieldSelector=spec.nodeName%3Dnode-1"),
        (Hit, "fieldSelector=,"),
        (invalid, "fieldSelector=nonsense"),
        (Hit, "labelSelector=app%3Dsample"),
        (Hit, "labelSelector=app%3Dother"),
        (invalid, "labelSelector=!"),
        (invalid, "watch=true&fieldSelector=spec.nodeName%3Dnode-1"),
    ] {
        let path = format!("{one}?{selector}&timeoutSeconds=1");
        asked.push((expected, path, json));
    }
    let all = format!("/api/v1/watch/namespaces/{NAMESPACE}/pods");
    for (expected, query) in [
        (Hit, "fieldSelector=metadata.name%3Drunning"),
        (Hit, "fieldSelector=spec.nodeName%3Dnode-1"),
        (Hit, "labelSelector=app%3Dsample"),
        (Hit, "allowWatchBookmarks=true"),
        (Hit, "allowWatchBookmarks=true&resourceVersion=0"),
        (Hit, "watch=true&allowWatchBookmarks=true&resourceVersion=0"),
        (Hit, "watch=false"),
        (Hit, "limit=1"),
        (Hit, "limit=-1"),
        (Hit, "limit=1&continue=x"),
        (invalid, "resourceVersion=abc"),
        (invalid, "resourceVersionMatch=NotOlderThan"),
        (invalid, "resourceVersionMatch=Exact"),
        (invalid, "resourceVersionMatch=Never"),
        (Hit, "resourceVersion=0&resourceVersionMatch=NotOlderThan"),
        (invalid, "resourceVersion=0&resourceVersionMatch=Exact"),
        (invalid, "resourceVersion=0&resourceVersionMatch=Never"),
        (
            invalid,
            "resourceVersion=0&resourceVersionMatch=NotOlderThan&continue=x",
        ),
        (invalid, "sendInitialEvents=true"),
        (invalid, "sendInitialEvents=false"),
        (
            invalid,
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        ),
        (
            Hit,
            "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0\
         &allowWatchBookmarks=true",
        ),
        (
            Hit,
            "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0",
        ),
        (Hit, "pretty=true"),
    ] {
        let path = format!("{all}?{query}&timeoutSeconds=1");
        asked.push((expected, path, json));
    }
    for (expected, timeout) in [
        (invalid, "timeoutSeconds=x"),
        (Hit, "timeoutSeconds=1&timeout=x"),
    ] {
        let path = format!("{all}?resourceVersion=0&{timeout}");
        asked.push((expected, path, json));
    }
    for (expected, path) in [
        (NotAsked, format!("{one}/status")),
        (NotAsked, format!("{one}/log")),
        (Bypass("unusual_request"), format!("{one}/")),
        (Bypass("not_watchable"), "/api/v1/watch/nothing".to_owned()),
        (
            NotAsked,
            "/api/v1/watch/namespaces/default/status".to_owned(),
        ),
    ] {
        asked.push((expected, format!("{path}?timeoutSeconds=1"), json));
    }
    compare(both, &asked).await;
}

/// The sample is older than apifront's history, so that has no event of it. All
/// versions but the newest are left to kube-apiserver.
async fn versions(both: Differential) {
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let now = both.direct.get(&pods).await.expect(200);
    let mut versions = vec![now["metadata"]["resourceVersion"].clone()];
    let items = now["items"].as_array().expect("items").iter();
    versions.extend(items.map(|i| i["metadata"]["resourceVersion"].clone()));
    let watch = format!("/api/v1/watch/namespaces/{NAMESPACE}/pods");
    let mut asked = Vec::new();
    let versions = versions.iter().filter_map(serde_json::Value::as_str);
    for (n, version) in versions.enumerate() {
        let expected = match n {
            0 => Expect::Hit,
            _ => Expect::Bypass("history_too_short"),
        };
        for more in [
            "",
            "&resourceVersionMatch=Exact",
            "&resourceVersionMatch=NotOlderThan",
            "&watch=1",
        ] {
            let path = format!("{watch}?resourceVersion={version}{more}&timeoutSeconds=1");
            asked.push((expected, path, "application/json"));
        }
    }
    compare(both, &asked).await;
}

differential!(all_forms, options, versions);

async fn is_hit(client: &Client, path: &str) -> bool {
    let debug = [("x-apifront-debug", "cache")];
    let answer = client.send(Method::GET, path, &debug, "").await;
    answer.status == 200 && (is_oracle() || answer.is_hit())
}

#[tokio::test]
async fn they_come_from_the_cache() {
    let front = Apifront::quiet();
    let client = front.admin_client();
    front.warm(&client, "/api/v1/pods?resourceVersion=0").await;
    for path in [
        "/api/v1/watch/pods?timeoutSeconds=1".to_owned(),
        "/api/v1/watch/pods?resourceVersion=0&timeoutSeconds=1".to_owned(),
        format!("/api/v1/watch/namespaces/{NAMESPACE}/pods?timeoutSeconds=1"),
        format!("/api/v1/watch/namespaces/{NAMESPACE}/pods/running?timeoutSeconds=1"),
    ] {
        assert!(is_hit(&client, &path).await, "{path}");
    }
}

#[tokio::test]
async fn one_object_is_followed_through_its_life() {
    let cluster = Cluster::shared();
    let front = Apifront::shared();
    let namespace = cluster.namespace("legacy").await;
    let admin = cluster.admin_client();
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let path = format!("/api/v1/watch/namespaces/{namespace}/configmaps/one?timeoutSeconds=60");
    let mut watches = vec![
        Watch::open(&admin, &path).await,
        Watch::open(&front.admin_client(), &path).await,
    ];
    for name in ["other", "one"] {
        let map = objects::config_map(name, json!({}), json!({ "a": "1" }));
        admin.post(&maps, &map).await.expect(201);
    }
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    let one = format!("{maps}/one");
    admin
        .patch(&one, "merge-patch+json", &patch)
        .await
        .expect(200);
    admin.delete(&format!("{maps}/other")).await.expect(200);
    admin.delete(&one).await.expect(200);
    let mut seen = Vec::new();
    for watch in &mut watches {
        let events = watch.take(3).await;
        let kinds: Vec<_> = events.iter().map(|e| e.short()).collect();
        assert_eq!(kinds, ["ADDED one", "MODIFIED one", "DELETED one"]);
        seen.push(events.into_iter().map(|e| e.line).collect::<Vec<_>>());
    }
    assert_eq!(seen[0], seen[1]);
}
