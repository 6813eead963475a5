//! Tests watches that wait to begin.

use std::time::Duration;

use serde_json::json;

use super::neighbour::namespace;
use crate::harness::apifront::Apifront;
use crate::harness::client::Protocol;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::watch::Watch;

const SOON: Duration = Duration::from_secs(60);

/// A thousand watches of one user delay another user's first watch by one seat.
/// (The test of the queue's limit is beside the limit: `flow::pool`.)
#[tokio::test]
async fn a_flood_of_watches_leaves_room_for_anothers_first() {
    skip_under_oracle!("the flow control is apifront's");
    const FLOOD: usize = 1_000;
    let cluster = Cluster::shared();
    let ns = namespace("watch-starts", 20, 20_000).await;
    let front = Apifront::start(cluster, |config| {
        config["serving"]["maxRequestsInflight"] = json!(1);
        config["serving"]["http2MaxStreamsPerConnection"] = json!(FLOOD);
        config["flow"] = json!({ "userConcurrencyLimit": 0, "queueWait": "60s" });
    })
    .await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let admin = front.admin_client();
    front
        .warm(&admin, &format!("{list}?resourceVersion=0"))
        .await;
    let client = |name: &str| front.client(Some(&cluster.certificates.client(name, &[&ns])));
    let (flood, other) = (client("flood"), client("other"));
    let path = format!("{list}?watch=1&resourceVersion=0");
    let opened: Vec<_> = (0..FLOOD)
        .map(|_| {
            let (client, path) = (flood.clone(), path.clone());
            tokio::spawn(async move { Watch::open(&client, &path).await })
        })
        .collect();
    let waiting = [("priority_level", "watchStart")];
    let name = "apiserver_flowcontrol_current_inqueue_requests";
    let mut most = 0.0f64;
    eventually("a queue", SOON, || async {
        front.metric(name, &waiting).await > 50.0
    })
    .await;
    most = most.max(front.metric(name, &waiting).await);
    let began = std::time::Instant::now();
    let mut watch = Watch::open(&other.over(Protocol::Http1), &path).await;
    assert!(watch.next().await.is_ok(), "an initial event");
    let took = began.elapsed();
    let left = front.metric(name, &waiting).await;
    println!("{most} watches waited, another's first began after {took:.1?}, {left} still wait");
    assert!(took < Duration::from_secs(5), "{took:?}");
    for opened in opened {
        opened.abort();
    }
    drop(watch);
    front.stop().await;
}
