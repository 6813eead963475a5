//! An apifront that reads from another one.

use serde_json::json;

use super::{DROPPED, SHAPE, Who, World, ask_both};
use crate::harness::apifront::Apifront;
use crate::harness::watch::Watch;

/// The lower one's cache holds whole objects, whatever the upper one's rules say of the
/// user as whom it reads: it answers callers whom no rule names.
#[tokio::test]
async fn a_cache_below_reads_whole_objects() {
    skip_under_oracle!("kube-apiserver has no such configuration");
    let everybody = json!([{ "name": "all", "groups": ["*"], "managedFields": "Drop" }]);
    let world = World::start(|config| config["shapes"] = everybody).await;
    let lower = world.front.start_below(&world.cluster, |_| {}).await;
    let (maps, direct) = (world.path("configmaps"), world.cluster.admin_client());
    lower.warm(&lower.admin_client(), &maps).await;
    let accept = "application/json";
    let (theirs, ours) = ask_both(&direct, &lower.admin_client(), &maps, accept).await;
    assert!(theirs.text().contains("managedFields"));
    assert!(ours.body == theirs.body && ours.is_hit());
    assert_eq!(ours.header(SHAPE), "");
    let path = format!("{maps}?watch=1");
    let mut watches = Vec::new();
    for client in [&direct, &lower.admin_client()] {
        watches.push(Watch::open(client, &path).await);
    }
    let change = json!({ "data": { "changed": "yes" } });
    let patch = format!("{maps}/m-00");
    let patched = direct.patch(&patch, "merge-patch+json", &change).await;
    patched.expect(200);
    let mut last = Vec::new();
    for watch in &mut watches {
        loop {
            let line = watch.next().await.expect("an event").line;
            if line.contains("MODIFIED") {
                last.push(line);
                break;
            }
        }
    }
    assert!(last[0].contains("managedFields"));
    assert_eq!(last[1], last[0]);
    let own = world.client(Who::Ann).get(&maps).await;
    assert_eq!(own.header(SHAPE), DROPPED);
    Apifront::stop(lower).await;
    world.front.stop().await;
}
