//! What one user asks does not keep others waiting.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{QUERIES, enable, front, query};
use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;

/// Returns a query that costs the most it may.
fn dear() -> Value {
    let items = vec!["0"; 100].join(",");
    query(&json!({
        "resource": { "version": "v1", "resource": "namespaces" },
        "where": format!("[{items}].all(a, [{items}].all(b, [{items}].all(c, c == 0)))"),
    }))
}

/// Queries of one user that cost the most they may wait for each other. A query and a
/// read of another user do not wait for them.
#[tokio::test]
async fn dear_queries_of_one_user_leave_turns_to_others() {
    skip_under_oracle!("kube-apiserver has no queries");
    let certificate = Cluster::quiet()
        .certificates
        .client("mallory", &["system:masters"]);
    let mallory = front().client(Some(&certificate));
    let others = front().admin_client();
    let namespaces = json!({ "version": "v1", "resource": "namespaces" });
    let dear = dear();
    let cheap = query(&json!({ "resource": namespaces, "countBy": ["object.status.phase"] }));
    let mut asked: JoinSet<_> = (0..24)
        .map(|_| {
            let (mallory, dear) = (mallory.clone(), dear.clone());
            async move { mallory.post(QUERIES, &dear).await }
        })
        .collect();
    // The others are given up at the end: a busy machine answers them all in minutes.
    let first = asked.join_next().await.unwrap().unwrap();
    let status = first.expect(400);
    let message = status["message"].as_str().unwrap();
    assert!(message.contains("costs more than"), "{message}");
    for _ in 0..5 {
        let answer = others.post(QUERIES, &cheap).await.expect(201);
        assert_eq!(answer["status"]["counts"][0]["values"], json!(["Active"]));
        others.get("/api/v1/namespaces/default").await.expect(200);
    }
    while asked.try_join_next().is_some() {}
    assert!(!asked.is_empty(), "the dear queries did not wait");
}

/// A query whose client is gone is not evaluated to its end.
#[tokio::test]
async fn nobody_waits_for_queries_of_clients_that_are_gone() {
    skip_under_oracle!("kube-apiserver has no queries");
    let front = Apifront::start(Cluster::quiet(), enable).await;
    let client = front.admin_client();
    let dear = dear();
    let asked = join_all((0..24).map(|_| client.post(QUERIES, &dear)));
    // Not all of them can be answered in this time, and the rest is given up.
    let _ = tokio::time::timeout(Duration::from_millis(500), asked).await;
    let cheap = query(&json!({ "resource": { "version": "v1", "resource": "namespaces" } }));
    client.post(QUERIES, &cheap).await.expect(201);
    let outcomes = |outcome| [("outcome", outcome)];
    let refused = front
        .metric("apifront_queries_total", &outcomes("refused"))
        .await;
    assert!(refused < 24.0, "{refused}");
    front.stop().await;
}

/// What queries make of a large object stays within bounds, though they name it often.
#[tokio::test]
async fn queries_do_not_fill_the_memory() {
    skip_under_oracle!("kube-apiserver has no queries");
    /// The memory of eight queries at a time, and of the object that each reads.
    const GROWTH: u64 = 300 << 20;
    let cluster = Cluster::shared();
    let front = Apifront::start(cluster, enable).await;
    let client = front.admin_client();
    let namespace = cluster.namespace("large").await;
    let large = config_map("large", json!({}), json!({ "text": "x".repeat(900_000) }));
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    cluster.admin_client().post(&path, &large).await.expect(201);
    let ask = async |condition: &str| {
        let query = query(&json!({
            "resource": { "version": "v1", "resource": "configmaps" },
            "namespaces": [namespace],
            "fieldSelector": "metadata.name=large",
            "where": condition,
        }));
        client.post(QUERIES, &query).await
    };
    let answer = ask("object.data.text.size() == 900000").await.expect(201);
    assert_eq!(answer["status"]["total"], 1);
    let before = front.process.peak_bytes();
    for part in [
        "object",
        "object.data.text + 'y'",
        "object.data.text.split('')",
        "object.data.text.replace('x', 'yy')",
        "object.data.text.findAll('x')",
    ] {
        let condition = format!("size([{}]) > 0", vec![part; 100].join(", "));
        let asked = (0..8).map(|_| ask(&condition));
        for answer in join_all(asked).await {
            let status = answer.expect(400);
            let message = status["message"].as_str().unwrap();
            assert!(message.contains(" for one object"), "{part}: {message}");
        }
        let grown = front.process.peak_bytes().saturating_sub(before);
        assert!(grown < GROWTH, "{part}: {} MiB", grown >> 20);
    }
    front.stop().await;
}
