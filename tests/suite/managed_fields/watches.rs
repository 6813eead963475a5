//! Watches, while objects change.

use std::time::Duration;

use serde_json::json;

use super::{JSON, always, cut, lines_until};
use crate::harness::apifront::Apifront;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::objects::config_map;

const ROUNDS: usize = 20;
const LAST: &str = "last";
const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn events_are_those_of_kube_apiserver_without_managed_fields() {
    skip_under_oracle!("kube-apiserver ignores the parameter");
    let cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    let ns = cluster.namespace("managed-fields").await;
    let front = Apifront::start(&cluster, always).await;
    let maps = format!("/api/v1/namespaces/{ns}/configmaps");
    for n in 0..3 {
        let map = config_map(&format!("first-{n}"), json!({}), json!({ "a": "1" }));
        admin.post(&maps, &map).await.expect(201);
    }
    front
        .warm(&front.admin_client(), &format!("{maps}?resourceVersion=0"))
        .await;
    let list = admin.get(&maps).await.expect(200);
    let version = list["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version");
    let from = format!("{maps}?watch=1&resourceVersion={version}");
    let selected = format!("{from}&labelSelector=odd%3Dyes");
    let initial = format!(
        "{maps}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let write = async {
        for n in 0..ROUNDS {
            let name = format!("m-{n}");
            let odd = if n % 2 == 1 { "yes" } else { "no" };
            let map = config_map(&name, json!({ "odd": odd }), json!({ "n": n.to_string() }));
            admin.post(&maps, &map).await.expect(201);
            let path = format!("{maps}/{name}");
            let change =
                json!({ "data": { "more": "x" }, "metadata": { "labels": { "odd": "yes" } } });
            admin
                .patch(&path, "merge-patch+json", &change)
                .await
                .expect(200);
            let applied = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": { "name": name }, "data": { "by": "another" },
            });
            let applying = format!("{path}?fieldManager=another");
            admin
                .patch(&applying, "apply-patch+yaml", &applied)
                .await
                .expect(200);
            if n % 3 == 0 {
                admin.delete(&path).await.expect(200);
            }
        }
        let last = config_map(LAST, json!({ "odd": "yes" }), json!({}));
        admin.post(&maps, &last).await.expect(201);
    };
    let through = front.admin_client();
    let dropped = through.clone().with_header("accept", JSON);
    let (_, all, got, some, got_some, first, got_first) = tokio::join!(
        write,
        lines_until(&admin, &from, LAST),
        lines_until(&dropped, &from, LAST),
        lines_until(&admin, &selected, LAST),
        lines_until(&dropped, &selected, LAST),
        lines_until(&admin, &initial, LAST),
        lines_until(&dropped, &initial, LAST),
    );
    let cut = |lines: &[String]| -> Vec<String> {
        lines
            .iter()
            .map(|line| cut::json(line.as_bytes()))
            .collect()
    };
    assert!(all.len() > 3 * ROUNDS && all.concat().contains("managedFields"));
    assert_eq!(got, cut(&all));
    assert!(some.len() > ROUNDS);
    assert_eq!(got_some, cut(&some));
    // The initial events end with a bookmark, and what follows depends on the moment
    // at which each watch began.
    let objects = |lines: &[String]| -> Vec<String> {
        let lines = lines.iter().filter(|line| line.contains("\"first-"));
        lines.cloned().collect()
    };
    assert_eq!(objects(&got_first), objects(&cut(&first)));
    assert!(!got_first.concat().contains("managedFields"));
    let labels = [("result", "hit"), ("verb", "watch")];
    eventually("three watches from the cache", SOON, async || {
        front.metric("apifront_cache_requests_total", &labels).await >= 3.0
    })
    .await;
    front.stop().await;
}
