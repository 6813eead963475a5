//! Query parameters: an unknown one may change the answer, and is upstream's.

use http::Method;
use serde_json::json;

use crate::harness::apifront::{Apifront, oracle};
use crate::harness::cluster::Cluster;
use crate::harness::differential::compare;
use crate::harness::objects::config_map;

const DEBUG: [(&str, &str); 1] = [("x-apifront-debug", "cache")];

/// The shards were ignored: a list of one had all objects, and junk was answered
/// as if it were none.
#[tokio::test]
async fn a_parameter_that_changes_the_answer_is_not_ignored() {
    let flag = "--feature-gates=ShardedListAndWatch=true".to_owned();
    let cluster = Cluster::start(&[flag]).await;
    let front = Apifront::start(&cluster, |_| {}).await;
    let (direct, client) = (cluster.admin_client(), front.admin_client());
    let list = "/api/v1/namespaces/default/configmaps";
    for n in 0..40 {
        let body = config_map(&format!("shard-{n}"), json!({}), json!({}));
        direct.post(list, &body).await.expect(201);
    }
    front
        .warm(&client, &format!("{list}?resourceVersion=0"))
        .await;
    let whole = client.get(&format!("{list}?resourceVersion=0")).await;
    let whole = whole.json()["items"].as_array().expect("items").len();
    let half = "shardSelector=shardRange(object.metadata.uid,%20'0x0000000000000000',%20'0x8000000000000000')";
    let mut shares = 0;
    for path in [
        format!("{list}?{half}"),
        format!("{list}?resourceVersion=0&{half}"),
        format!("{list}?resourceVersion=0&shardSelector=junk"),
        format!("{list}?watch=1&resourceVersion=0&timeoutSeconds=1&{half}"),
        format!("{list}/shard-1?resourceVersion=0&{half}"),
        format!("{list}?resourceVersion=0&somethingNew=1"),
    ] {
        let expected = direct.get(&path).await;
        let got = client.send(Method::GET, &path, &DEBUG, "").await;
        let difference = compare(&expected, &got);
        assert!(difference.is_empty(), "{path}\n{difference}");
        if !oracle() {
            assert_eq!(
                got.header("x-apifront-cache"),
                "bypass; reason=unusual_request",
                "{path}"
            );
        }
        let answer: serde_json::Value = serde_json::from_slice(&got.body).unwrap_or_default();
        if answer["metadata"]["shardInfo"].is_object() {
            shares += 1;
            let share = answer["items"].as_array().expect("items").len();
            assert!(share < whole, "{path}: {share} of {whole}");
        }
    }
    assert_eq!(shares, 2, "lists of a shard");
    front.stop().await;
}

/// client-go adds it to each request where `rest.Config.Timeout` is set: such
/// clients got nothing from the cache.
#[tokio::test]
async fn requests_with_a_timeout_are_answered_from_the_cache() {
    let front = Apifront::quiet();
    let (direct, client) = (Cluster::quiet().admin_client(), front.admin_client());
    let list = "/api/v1/namespaces/default/configmaps";
    let one = "/api/v1/namespaces/default";
    for path in [list, "/api/v1/namespaces"] {
        front
            .warm(&client, &format!("{path}?resourceVersion=0"))
            .await;
    }
    for path in [list, one] {
        for (timeout, hit) in [
            ("10s", true),
            ("1m0s", true),
            ("1h30m", true),
            ("", true),
            ("32s&timeout=x", true),
            // Upstream has the words for these.
            ("10", false),
            ("ten", false),
            ("0s", false),
            ("-5s", false),
        ] {
            let path = format!("{path}?resourceVersion=0&timeout={timeout}");
            let expected = direct.get(&path).await;
            let got = client.send(Method::GET, &path, &DEBUG, "").await;
            let difference = compare(&expected, &got);
            assert!(difference.is_empty(), "{path}\n{difference}");
            assert!(oracle() || got.is_hit() == hit, "{path}: {:?}", got.headers);
        }
    }
    // Documents of the API itself, as kubectl asks for them.
    for path in ["/api?timeout=32s", "/openapi/v3?timeout=x", "/apis?timeout=x"] {
        let difference = compare(&direct.get(path).await, &client.get(path).await);
        assert!(difference.is_empty(), "{path}\n{difference}");
    }
}
