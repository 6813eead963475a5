//! Tests query parameters. An unknown parameter may change the answer, so requests
//! with one are forwarded.

use http::Method;
use serde_json::json;

use crate::harness::apifront::{Apifront, oracle};
use crate::harness::cluster::Cluster;
use crate::harness::differential::{Differential, compare};
use crate::harness::expect::Expect;
use crate::harness::media_types::{PROTOBUF, TABLE};
use crate::harness::objects::config_map;

const DEBUG: [(&str, &str); 1] = [("x-apifront-debug", "cache")];

const UID: &str = "object.metadata.uid";

/// Returns a parameter that selects a range of a field's hashes.
fn shard(field: &str, start: &str, end: &str) -> String {
    format!("shardSelector=shardRange({field},%20'{start}',%20'{end}')")
}

/// If the selector were ignored, a list of one shard would have all objects, and an
/// invalid selector would not be refused.
#[tokio::test]
async fn a_parameter_that_changes_the_answer_is_not_ignored() {
    let flag = "--feature-gates=ShardedListAndWatch=true".to_owned();
    let cluster = Cluster::leased(&[flag]).await;
    let front = Apifront::start(&cluster, |_| {}).await;
    let (direct, client) = (cluster.admin_client(), front.admin_client());
    let list = "/api/v1/namespaces/default/configmaps";
    for n in 0..40 {
        let labels = json!({ "parity": if n % 2 == 0 { "even" } else { "odd" } });
        let body = config_map(&format!("shard-{n}"), labels, json!({}));
        direct.post(list, &body).await.expect(201);
    }
    for path in [list, "/api/v1/configmaps"] {
        let path = format!("{path}?resourceVersion=0");
        front.warm(&client, &path).await;
    }
    let (zero, middle, end) = (
        "0x0000000000000000",
        "0x8000000000000000",
        "0x10000000000000000",
    );
    let half = shard(UID, zero, middle);
    let rest = shard(UID, middle, end);
    let spaces = shard("object.metadata.namespace", zero, middle);
    let halves = format!("{half}%20||%20{}", rest.replace("shardSelector=", ""));
    let watch = "watch=1&resourceVersion=0&timeoutSeconds=1";
    let all = "/api/v1/configmaps";
    let hit = Expect::Hit;
    let unusual = Expect::Bypass("unusual_request");
    let mut both = Differential::new(direct, client);
    for (path, accept, expected) in [
        (format!("{list}?resourceVersion=0"), "*/*", hit),
        (format!("{list}?{half}"), "*/*", hit),
        (format!("{list}?{rest}"), "*/*", hit),
        (format!("{list}?resourceVersion=0&{half}"), "*/*", hit),
        (format!("{list}?resourceVersion=0&{half}"), PROTOBUF, hit),
        (format!("{list}?resourceVersion=0&{halves}"), "*/*", hit),
        (format!("{all}?resourceVersion=0&{spaces}"), "*/*", hit),
        (
            format!("{list}?labelSelector=parity=odd&{half}"),
            "*/*",
            hit,
        ),
        (format!("{list}?{watch}&{half}"), "*/*", hit),
        (format!("{list}?{watch}&{rest}"), PROTOBUF, hit),
        (format!("{list}?resourceVersion=0&{half}"), TABLE, hit),
        (format!("{list}?limit=3&{half}"), "*/*", hit),
        (
            format!("{list}?fieldSelector=metadata.name=shard-1&{half}"),
            "*/*",
            hit,
        ),
        (
            format!("{list}?resourceVersion=0&shardSelector=junk"),
            "*/*",
            unusual,
        ),
        (
            format!("{list}/shard-1?resourceVersion=0&{half}"),
            "*/*",
            unusual,
        ),
        (
            format!("{list}?resourceVersion=0&somethingNew=1"),
            "*/*",
            unusual,
        ),
    ] {
        let headers = [("accept", accept)];
        let question = both.expect(expected);
        question.ask(Method::GET, &path, &headers, "").await;
    }
    let mut sizes = Vec::new();
    for query in ["resourceVersion=0", half.as_str(), rest.as_str()] {
        let answer = both.front.get(&format!("{list}?{query}")).await;
        let items = answer.json()["items"].as_array().map(Vec::len);
        sizes.push(items.expect("items"));
    }
    both.finish();
    let [whole, half, rest] = sizes[..] else {
        panic!("{sizes:?}");
    };
    assert!(half > 0 && rest > 0 && half + rest == whole, "{sizes:?}");
    front.stop().await;
}

/// An API server without the feature gate ignores the selector.
#[tokio::test]
async fn shards_are_upstreams_where_it_has_none() {
    let front = Apifront::quiet();
    let (direct, client) = (Cluster::quiet().admin_client(), front.admin_client());
    let list = "/api/v1/namespaces";
    front
        .warm(&client, &format!("{list}?resourceVersion=0"))
        .await;
    let half = shard(UID, "0x0000000000000000", "0x8000000000000000");
    let path = format!("{list}?resourceVersion=0&{half}");
    let got = client.send(Method::GET, &path, &DEBUG, "").await;
    let difference = compare(&direct.get(&path).await, &got);
    assert!(difference.is_empty(), "{difference}");
    let cache = got.header("x-apifront-cache");
    assert!(oracle() || cache == "bypass; reason=unusual_request");
}

/// client-go adds `timeout` to each request if `rest.Config.Timeout` is set. The
/// cache must answer these clients, too.
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
            // The upstream refuses these in its own words.
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
    // kubectl requests these documents of the API in this form.
    for path in [
        "/api?timeout=32s",
        "/openapi/v3?timeout=x",
        "/apis?timeout=x",
    ] {
        let difference = compare(&direct.get(path).await, &client.get(path).await);
        assert!(difference.is_empty(), "{path}\n{difference}");
    }
}
