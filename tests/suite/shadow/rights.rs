//! Shadow mode gives nobody a right: callers get only what the upstream allows, and
//! would get the same from the cache.

use http::Method;
use serde_json::json;

use super::{SOON, assert_same, counted, report, start, warm};
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;

#[tokio::test]
async fn refusals_are_compared_and_start_nothing() {
    skip_under_oracle!("kube-apiserver has no shadow mode");
    let cluster = &Cluster::leased(&[]).await;
    let front = start(cluster, |_| {}).await;
    let stranger = cluster.certificates.client("stranger", &[]);
    let stranger = front.client(Some(&stranger));
    let ns = cluster.namespace("shadow").await;
    let list = format!("/api/v1/namespaces/{ns}/secrets");
    warm(&front, "/api/v1/nodes", "nodes").await;
    for path in [
        list.clone(),
        format!("{list}/a"),
        "/api/v1/nodes".to_owned(),
    ] {
        stranger.get(&path).await.expect(403);
        let watch = format!("{path}?watch=1");
        stranger.get(&watch).await.expect(403);
    }
    eventually("refusals are compared", SOON, || async {
        let report = report(&front).await;
        let nodes = counted(&report, "nodes", "list", "other");
        let secrets = counted(&report, "secrets", "get", "other");
        nodes["matches"].as_u64() >= Some(1) && secrets["matches"].as_u64() >= Some(1)
    })
    .await;
    assert_same(&report(&front).await);
    let cached = front.admin_client().get("/debug/cache").await.expect(200);
    let resources = cached["resources"].as_array().expect("resources");
    let secrets = resources.iter().find(|one| one["resource"] == "secrets");
    assert_eq!(secrets, None, "a stranger made apifront list Secrets");
    // Only callers who may see the cache may see what shadow mode found.
    stranger.get("/debug/shadow").await.expect(403);
    let plain = Client::plain(front.observability);
    let answer = plain.send(Method::GET, "/debug/shadow", &[], "").await;
    assert_eq!(answer.json()["mode"], json!("Shadow"));
    assert!(answer.json()["differences"].is_null());
    front.stop().await;
}
