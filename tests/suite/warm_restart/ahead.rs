//! Tests that representations of lists are made before a list asks for them.
//!
//! They are made for lists of whole resources. Each test has its own cluster, so
//! that nobody writes between the two answers that it compares.

use std::time::Duration;

use serde_json::json;

use super::{directory, loads, same_hit, start};
use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::objects::config_map;

const LIST: &str = "/api/v1/configmaps?resourceVersion=0";
const ACCEPTED: [&str; 4] = [
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
];
const SOON: Duration = Duration::from_secs(30);

async fn made_ahead(front: &Apifront, forms: f64) {
    eventually("the forms are made", SOON, || async {
        let made = front.metric("apifront_cache_made_ahead_total", &[]).await;
        made >= forms
    })
    .await;
}

/// The first list is forwarded, since it wants the newest state. It announces which
/// representations will be needed.
#[tokio::test]
async fn a_list_that_came_early_is_made_ahead() {
    skip_under_oracle!("kube-apiserver makes nothing ahead");
    let cluster = &Cluster::leased(&[]).await;
    let front = Apifront::start(cluster, |_| {}).await;
    let client = front.admin_client();
    client.get("/api/v1/configmaps").await.expect(200);
    made_ahead(&front, 1.0).await;
    let derived = [("resource", "configmaps"), ("kind", "derived")];
    assert!(front.metric("apifront_cache_bytes", &derived).await > 0.0);
    same_hit(cluster, &client, LIST, ACCEPTED[0]).await;
    front.stop().await;
}

#[tokio::test]
async fn a_restarted_process_makes_what_the_one_before_was_asked_for() {
    skip_under_oracle!("kube-apiserver saves nothing there");
    let cluster = &Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    let ns = cluster.namespace("ahead").await;
    for n in 0..100 {
        let object = config_map(&format!("a{n}"), json!({}), json!({ "n": n.to_string() }));
        let path = format!("/api/v1/namespaces/{ns}/configmaps");
        admin.post(&path, &object).await.expect(201);
    }
    let directory = directory();
    let before = start(cluster, &directory, |_| {}).await;
    let client = before.admin_client();
    before.warm(&client, LIST).await;
    for accept in ACCEPTED {
        same_hit(cluster, &client, LIST, accept).await;
    }
    before.stop().await;
    let front = start(cluster, &directory, |_| {}).await;
    assert_eq!(
        loads(&front, "resumed").await,
        1.0,
        "{}",
        front.process.log()
    );
    // These are JSON, and rows and metadata of Tables. Objects arrive as protobuf,
    // but its list is joined ahead too. Its metadata are a part of it.
    made_ahead(&front, 4.0).await;
    let client = front.admin_client();
    for accept in ACCEPTED {
        same_hit(cluster, &client, LIST, accept).await;
    }
    front.stop().await;
}
