//! Tests documents that change, and the right to read them.

use std::time::Duration;

use serde_json::json;

use super::V2_PROTOBUF;
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, unique};
use crate::harness::{eventually, pace};

/// The time in which kube-apiserver describes a new kind. Its controllers take
/// seconds.
const SEEN_WITHIN: Duration = Duration::from_secs(40);
/// The number of answers by which apifront may be later than kube-apiserver. On a quiet
/// machine they take less than three seconds. On a busy one, all takes longer.
const MAX_ASKS: usize = 60;
const PAUSE: Duration = Duration::from_millis(25);

fn definition(group: &str, field: &str) -> serde_json::Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("gadgets.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "plural": "gadgets", "singular": "gadget", "kind": "Gadget" },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": {
                        "type": "object",
                        "properties": { field: { "type": "string", "description": "A field of its own." } },
                    }},
                }},
            }],
        },
    })
}

async fn body(client: &Client, path: &str, accept: &str) -> Vec<u8> {
    client.get_as(path, accept).await.body.to_vec()
}

fn contains(body: &[u8], text: &str) -> bool {
    body.windows(text.len()).any(|w| w == text.as_bytes())
}

/// Waits until `direct` shows, or no longer shows, `text`. Then `front` must follow
/// within [`MAX_ASKS`].
async fn follows(
    direct: &Client,
    front: &Client,
    path: &str,
    accept: &str,
    text: &str,
    shown: bool,
) {
    let shows = async |client: &Client| contains(&body(client, path, accept).await, text) == shown;
    eventually("kube-apiserver shows it", SEEN_WITHIN, || shows(direct)).await;
    let mut asks = 1;
    while !shows(front).await {
        asks += 1;
        assert!(asks <= MAX_ASKS, "{path} {accept}: {text} {shown}");
        pace::of_tries(PAUSE).await;
    }
}

#[tokio::test]
async fn a_custom_resource_comes_changes_and_goes() {
    let direct = Cluster::shared().admin_client();
    let front = Apifront::shared().admin_client();
    let group = format!("{}.example.com", unique("openapi"));
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let name = format!("{definitions}/gadgets.{group}");
    let key = format!("apis/{group}/v1");
    let path = format!("/openapi/v3/{key}");
    // The key does not exist yet: 404.
    assert_eq!(front.get(&path).await.status, 404);

    let (first, second) = (unique("first"), unique("second"));
    let created = direct.post(definitions, &definition(&group, &first)).await;
    created.expect(201);
    follows(&direct, &front, "/openapi/v3", "*/*", &key, true).await;
    follows(&direct, &front, &path, "*/*", &first, true).await;
    follows(&direct, &front, "/openapi/v2", "*/*", &first, true).await;
    follows(&direct, &front, "/openapi/v2", V2_PROTOBUF, &first, true).await;

    let change = json!([{
        "op": "replace",
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties",
        "value": { second.as_str(): { "type": "integer" } },
    }]);
    direct
        .patch(&name, "json-patch+json", &change)
        .await
        .expect(200);
    follows(&direct, &front, &path, "*/*", &second, true).await;
    follows(&direct, &front, "/openapi/v2", V2_PROTOBUF, &second, true).await;

    direct.delete(&name).await.expect(200);
    follows(&direct, &front, "/openapi/v3", "*/*", &key, false).await;
    follows(&direct, &front, "/openapi/v2", "*/*", &second, false).await;
    assert_eq!(front.get(&path).await.status, 404);
}

/// A root that is newer than apifront's leads to the newer document.
#[tokio::test]
async fn the_hash_of_another_replica_is_found() {
    let direct = Cluster::shared().admin_client();
    let front = Apifront::shared().admin_client();
    let group = format!("{}.example.com", unique("hash"));
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let created = direct.post(definitions, &definition(&group, "field")).await;
    created.expect(201);
    let key = format!("apis/{group}/v1");
    let mut url = String::new();
    eventually("the key is there", SEEN_WITHIN, || async {
        direct.get("/openapi/v3").await.text().contains(&key)
    })
    .await;
    let root = direct.get("/openapi/v3").await.expect(200);
    url += root["paths"][&key]["serverRelativeURL"]
        .as_str()
        .expect("a URL");
    let answer = front.get(&url).await;
    assert_eq!(answer.status, 200, "{url}");
    assert_eq!(answer.header("cache-control"), "public, immutable");
    let name = format!("{definitions}/gadgets.{group}");
    direct.delete(&name).await.expect(200);
}

#[tokio::test]
async fn who_may_not_get_the_path_gets_no_document() {
    let cluster = Cluster::shared();
    let front = Apifront::shared();
    for path in ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"] {
        let direct = cluster.client(None).get(path).await;
        let through = front.client(None).get(path).await;
        assert_eq!(through.status, 401);
        assert!(matches!(direct.status.as_u16(), 401 | 403));
    }
}
