//! What one user asks does not keep others waiting.

use futures::future::join_all;
use serde_json::json;

use super::{QUERIES, front, query};
use crate::harness::cluster::Cluster;

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
    let items = vec!["0"; 100].join(",");
    let dear = query(&json!({
        "resource": namespaces,
        "where": format!("[{items}].all(a, [{items}].all(b, [{items}].all(c, c == 0)))"),
    }));
    let cheap = query(&json!({ "resource": namespaces, "countBy": ["object.status.phase"] }));
    let asked =
        tokio::spawn(async move { join_all((0..24).map(|_| mallory.post(QUERIES, &dear))).await });
    for _ in 0..5 {
        let answer = others.post(QUERIES, &cheap).await.expect(201);
        assert_eq!(answer["status"]["counts"][0]["values"], json!(["Active"]));
        others.get("/api/v1/namespaces/default").await.expect(200);
    }
    assert!(!asked.is_finished(), "the dear queries did not wait");
    for answer in asked.await.unwrap() {
        let status = answer.expect(400);
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("costs more than"), "{message}");
    }
}
