//! Without an API server, a view is served only as long as rights are valid.

use serde_json::json;

use super::world::{MAPS, SOON, World};
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::watch::Watch;

#[tokio::test]
async fn a_view_ends_with_what_is_known_of_rights() {
    skip_under_oracle!("kube-apiserver has no views");
    // The world lives until the process ends.
    let cluster: &'static Cluster = Box::leak(Box::new(Cluster::start(&[]).await));
    let world = World::before(cluster, 1, |config| {
        config["upstream"]["connectTimeout"] = json!("5s");
        config["cache"]["maxStaleness"] = json!("3s");
        config["views"]["reviewTTL"] = json!("2s");
    })
    .await;
    world.grant(&world.namespaces[0]).await;
    let client = world.client();
    world.settled(&client, &[&world.namespaces[0]]).await;
    let mut watch = Watch::open(&client, &format!("{MAPS}?watch=1")).await;
    watch.take(3).await;
    world.cluster.apiserver.signal("STOP");
    let (_, _) = tokio::time::timeout(SOON, watch.rest())
        .await
        .expect("an end");
    eventually("the end of lists", SOON, || async {
        let list = client.get(&format!("{MAPS}?resourceVersion=0")).await;
        list.status == 503 || list.status == 504
    })
    .await;
    world.cluster.apiserver.signal("CONT");
    world.settled(&client, &[&world.namespaces[0]]).await;
}
