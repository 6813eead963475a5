//! The middle instance fails.

use std::time::Duration;

use serde_json::json;

use super::{Tree, version};
use crate::harness::objects::config_map;
use crate::harness::watch::Watch;

const WATCHERS: usize = 8;
const CHANGES: usize = 20;
const AWAY: Duration = Duration::from_secs(3);

/// The middle instance is killed while objects change, and returns with an empty
/// cache. Watches at the lower one stay open, and miss, repeat and reorder nothing.
#[tokio::test]
async fn watches_go_on_when_the_middle_one_is_killed() {
    skip_under_oracle!("there are no hops");
    let mut tree = Tree::start().await;
    let [direct, _, lower] = tree.ways();
    let path = "/api/v1/namespaces/default/configmaps";
    tree.lower.warm(&lower, path).await;
    let list = direct.get(path).await.expect(200);
    let watch = format!("{path}?watch=1&resourceVersion={}", version(&list));
    let mut theirs = Watch::open(&direct, &watch).await;
    let mut watches = Vec::new();
    for _ in 0..WATCHERS {
        watches.push(Watch::open(&lower, &watch).await);
    }
    let write = async |phase: &str| {
        for n in 0..CHANGES {
            let object = config_map(&format!("{phase}-{n}"), json!({}), json!({}));
            direct.post(path, &object).await.expect(201);
            if n % 2 == 0 {
                direct
                    .delete(&format!("{path}/{phase}-{n}"))
                    .await
                    .expect(200);
            }
        }
    };
    write("before").await;
    tree.upper.process.kill();
    write("meanwhile").await;
    // The lower instance still answers from memory.
    let cached = lower.get(&format!("{path}?resourceVersion=0")).await;
    assert_eq!(cached.status, 200, "{}", cached.text());
    crate::harness::pace::lasting(AWAY).await;
    tree.upper.restart().await;
    write("after").await;
    let count = 3 * (CHANGES + CHANGES / 2);
    let lines = |events: Vec<crate::harness::watch::Event>| -> Vec<String> {
        events.into_iter().map(|event| event.line).collect()
    };
    let expected = lines(theirs.take(count).await);
    for watch in &mut watches {
        assert_eq!(lines(watch.take(count).await), expected);
    }
    tree.lower.stop().await;
    tree.upper.stop().await;
}
