//! Rules change while apifront runs.

use serde_json::json;

use super::{DROPPED, SHAPE, SOON, Who, World};
use crate::harness::eventually;
use crate::harness::watch::Watch;

#[tokio::test]
async fn a_changed_file_changes_the_rules() {
    skip_under_oracle!("kube-apiserver has no such configuration");
    let world = World::start(|config| config["shapes"] = json!([])).await;
    let (maps, robot) = (world.path("configmaps"), world.client(Who::Robot));
    let shape = async || robot.get(&maps).await.header(SHAPE).to_owned();
    assert_eq!(shape().await, "");
    let path = format!("{maps}?watch=1");
    let mut before = Watch::open(&robot, &path).await;
    let mut config = world.front.read_config();
    config["shapes"] = super::rules();
    world.front.write_config(&config);
    eventually("the shape", SOON, async || shape().await == DROPPED).await;
    // An open watch keeps the shape with which it began.
    for _ in 0..40 {
        let line = before.next().await.expect("an event").line;
        assert!(line.contains("managedFields"), "{line}");
    }
    let left_out = || world.count("left_out_bytes_total", &[("rule", "robots")]);
    let first = left_out().await;
    assert!(first > 0.0);
    config["shapes"] = json!([{ "name": "robots", "managedFields": "Drop" }]);
    world.front.write_config(&config);
    eventually("the bad file is noticed", SOON, async || {
        let log = world.front.process.log();
        log.contains("must name users, groups or userAgents")
    })
    .await;
    assert_eq!(shape().await, DROPPED);
    config["shapes"] = json!([]);
    world.front.write_config(&config);
    eventually("no shape", SOON, async || shape().await.is_empty()).await;
    assert!(left_out().await >= first);
    world.front.stop().await;
}
