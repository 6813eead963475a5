//! Tests a cache whose memory limit is below the size of the requested objects.

use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::differential::Differential;
use crate::harness::eventually;
use crate::harness::expect::Expect;
use crate::harness::objects::config_map;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn what_has_no_room_is_answered_upstream() {
    skip_under_oracle!("kube-apiserver has no memory limit for its cache");
    let cluster = Cluster::shared();
    let admin = cluster.admin_client();
    let ns = cluster.namespace("large").await;
    let large = format!("/api/v1/namespaces/{ns}/configmaps");
    for n in 0..8 {
        let data = json!({ "text": "x".repeat(300_000) });
        let object = config_map(&format!("large-{n}"), json!({}), data);
        admin.post(&large, &object).await.expect(201);
    }
    let front = Apifront::start(cluster, |config| {
        config["cache"]["memoryLimit"] = json!("2Mi");
    })
    .await;
    let mut both = Differential::new(admin.clone(), front.admin_client());
    let small = &format!("/api/v1/namespaces/{ns}?resourceVersion=0");
    front.warm(&both.front, small).await;
    let large_list = format!("{large}?resourceVersion=0");
    eventually("there is no room", SOON, || async {
        let debug = [("x-apifront-debug", "cache")];
        let answer = both.front.send(Method::GET, &large_list, &debug, "").await;
        answer.header("x-apifront-cache") == "bypass; reason=memory_limit"
    })
    .await;
    let no_room = Expect::Bypass("memory_limit");
    both.expect(no_room).get(&large_list).await;
    front.warm(&both.front, small).await;
    both.get(small).await;
    let refused = [("what", "refused")];
    assert!(front.metric("apifront_cache_shed_total", &refused).await >= 1.0);
    both.finish();

    // With more memory, a later attempt caches the resource.
    let roomy = Apifront::start(cluster, |config| {
        config["cache"]["memoryLimit"] = json!("1Gi");
        config["cache"]["idleTimeout"] = json!("1s");
    })
    .await;
    let client = roomy.admin_client();
    roomy.warm(&client, &large_list).await;
    // The resource is no longer read.
    let labels = [("resource", "configmaps")];
    eventually("it is dropped", SOON, || async {
        let text = roomy.metrics().await;
        !text.contains("apifront_cache_objects{group=\"\",resource=\"configmaps\"")
    })
    .await;
    assert_eq!(roomy.metric("apifront_cache_objects", &labels).await, 0.0);
    roomy.warm(&client, &large_list).await;
    for n in 0..8 {
        admin
            .delete(&format!("{large}/large-{n}"))
            .await
            .expect(200);
    }
    front.stop().await;
    roomy.stop().await;
}

/// With huge pages, a page stays resident while any of its values is in use.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn memory_has_no_huge_pages() {
    skip_under_oracle!("a process of apifront's own");
    let front = Apifront::start(Cluster::shared(), |_| {}).await;
    let status = format!("/proc/{}/status", front.process.pid());
    let status = std::fs::read_to_string(status).expect("the process");
    assert!(status.contains("THP_enabled:\t0\n"), "{status}");
    front.stop().await;
}
