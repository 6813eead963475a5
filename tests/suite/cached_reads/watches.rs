//! Watches of everything, and from all kinds of versions.

use futures::StreamExt;
use http::Method;
use serde_json::{Value, json};

use super::everything::resources;
use super::{HISTORY_TOO_SHORT, PARTIAL, PROTOBUF, TABLE};
use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::differential::Differential;
use crate::harness::expect::Expect;
use crate::harness::objects::config_map;
use crate::harness::sample::NAMESPACE;

/// Compares the first events of watches that last a second.
pub(super) async fn watches_of_everything(mut both: Differential) {
    let mut paths = Vec::new();
    for resource in resources(&both.direct).await.iter().filter(|r| r.watchable) {
        let path = format!(
            "{}?watch=1&resourceVersion=0&timeoutSeconds=1",
            resource.everywhere()
        );
        let marked = format!("{path}&allowWatchBookmarks=true");
        let json = "application/json";
        paths.push((resource.expected(), path.clone(), json));
        paths.push((resource.expected(), marked, json));
        for accept in [PROTOBUF, TABLE] {
            paths.push((resource.expected_as(accept), path.clone(), accept));
        }
    }
    ask_at_once(&mut both, &paths).await;
    both.finish();
}

/// The sample is older than apifront's history, so that has no event of it. All
/// versions but the newest are left to kube-apiserver.
pub(super) async fn watches_from_a_known_version(mut both: Differential) {
    let mut paths = Vec::new();
    for list in ["pods", "configmaps", "services"] {
        let list = format!("/api/v1/namespaces/{NAMESPACE}/{list}");
        let now = both.direct.get(&list).await.expect(200);
        let mut versions = vec![now["metadata"]["resourceVersion"].clone()];
        let items = now["items"].as_array().expect("items");
        let items = items.iter().rev().take(5);
        versions.extend(items.map(|i| i["metadata"]["resourceVersion"].clone()));
        for (n, version) in versions.iter().filter_map(Value::as_str).enumerate() {
            let expected = match n {
                0 => Expect::Hit,
                _ => HISTORY_TOO_SHORT,
            };
            let path = format!("{list}?watch=1&resourceVersion={version}&timeoutSeconds=1");
            for accept in ["application/json", TABLE, PROTOBUF, PARTIAL] {
                paths.push((expected, path.clone(), accept));
            }
            let selected = format!("{path}&labelSelector=app%3Dsample");
            paths.push((expected, selected, "application/json"));
        }
    }
    ask_at_once(&mut both, &paths).await;
    both.finish();
}

/// These versions are in apifront's history, in a namespace where nobody else
/// writes.
#[tokio::test]
async fn watches_from_within_the_history() {
    let (cluster, front) = (Cluster::shared(), Apifront::shared());
    let mut both = Differential::new(cluster.admin_client(), front.admin_client());
    let list = format!(
        "/api/v1/namespaces/{}/configmaps",
        cluster.namespace("history").await
    );
    let newest = format!("{list}?resourceVersion=0");
    both.warm(&newest).await;
    let mut versions = Vec::new();
    for n in 0..4 {
        let labels = json!({ "app": "sample", "n": n.to_string() });
        let body = config_map(&format!("map-{n}"), labels, json!({}));
        versions.push(both.direct.post(&list, &body).await.expect(201));
    }
    let one = format!("{list}/map-0");
    let patch = json!({ "metadata": { "labels": { "app": "other" } } });
    let patched = both.direct.patch(&one, "merge-patch+json", &patch).await;
    versions.push(patched.expect(200));
    let gone = both.direct.delete(&format!("{list}/map-1")).await;
    gone.expect(200);
    let mut paths = Vec::new();
    for object in &versions {
        let version = object["metadata"]["resourceVersion"].as_str();
        let version = version.expect("a version");
        // When the cache has this version, it has all earlier ones.
        both.warm(&format!("{list}?resourceVersion={version}"))
            .await;
        let path = format!("{list}?watch=1&resourceVersion={version}&timeoutSeconds=1");
        for accept in ["application/json", TABLE, PROTOBUF, PARTIAL] {
            paths.push((Expect::Hit, path.clone(), accept));
        }
        for selector in ["app%3Dsample", "app%3Dother", "n%3D1"] {
            let selected = format!("{path}&labelSelector={selector}");
            paths.push((Expect::Hit, selected, "application/json"));
        }
        let legacy = path.replace("/api/v1/", "/api/v1/watch/");
        paths.push((Expect::Hit, legacy, "application/json"));
    }
    ask_at_once(&mut both, &paths).await;
    both.finish();
}

/// Asks many at a time, because each lasts a second.
async fn ask_at_once(both: &mut Differential, paths: &[(Expect, String, &str)]) {
    let shared = &*both;
    let asked = futures::stream::iter(paths).map(|(expected, path, accept)| async move {
        let headers = [("accept", *accept)];
        shared
            .difference(*expected, Method::GET, path, &headers, "")
            .await
    });
    let found: Vec<String> = asked.buffer_unordered(64).collect().await;
    both.add(found);
}
