//! An API server's answers for versions that etcd has forgotten
//! (RunTestCompactRevision, RunTestListInconsistentContinuation). The server's own
//! cache would still know these versions, so the server is restarted.

use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::Cluster;
use crate::harness::differential::compare;
use crate::harness::expect::{DEBUG, Expect};
use crate::harness::objects::config_map;
use crate::harness::watch::Watch;

const TOO_OLD_TO_CONTINUE: &str = "The provided continue parameter is too old to display a \
     consistent list result. You can start a new list without the continue parameter, or use the \
     continue token in this response to retrieve the remainder of the results. Continuing with \
     the provided token results in an inconsistent list - objects that were created, modified, or \
     deleted between the time the first chunk was returned and now may show up in the list.";

fn names(list: &Value) -> Vec<&str> {
    fn name(item: &Value) -> Option<&str> {
        item["metadata"]["name"].as_str()
    }
    let items = list["items"].as_array().expect("items");
    items.iter().filter_map(name).collect()
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value["metadata"][key].as_str().expect("a text")
}

/// Fails unless the page is gone and the answer has a token for the rest of the
/// list.
async fn assert_gone(client: &Client, list: &str, page: &Answer) {
    let gone = page.expect_status(410, "Expired", TOO_OLD_TO_CONTINUE);
    let token = text(&gone, "continue");
    let rest = client
        .get(&format!("{list}?limit=9&continue={token}"))
        .await;
    let rest = rest.expect(200);
    // c2 was deleted and c4 was created in the meantime.
    assert_eq!(names(&rest), ["c3", "c4"]);
}

#[tokio::test]
async fn forgotten_versions() {
    skip_under_oracle!("it asks two apifronts and kube-apiserver of one history");
    let mut cluster = Cluster::leased(&[]).await;
    let old_front = Apifront::start(&cluster, |_| {}).await;
    let ns = cluster.namespace("forgotten").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let direct = cluster.admin_client();
    let through_old = old_front.admin_client();
    old_front
        .warm(&through_old, "/api/v1/configmaps?resourceVersion=0")
        .await;
    for n in 0..4 {
        let body = config_map(&format!("c{n}"), json!({}), json!({}));
        direct.post(&list, &body).await.expect(201);
    }
    let of_direct = direct.get(&format!("{list}?limit=2")).await.expect(200);
    let of_old = through_old
        .get(&format!("{list}?limit=2"))
        .await
        .expect(200);
    let version = text(&of_direct, "resourceVersion").to_owned();
    direct.delete(&format!("{list}/c2")).await.expect(200);
    let body = config_map("c4", json!({}), json!({}));
    direct.post(&list, &body).await.expect(201);

    cluster.apiserver.kill();
    let now = cluster.etcd.revision().await;
    cluster.etcd.compact(now).await;
    cluster.apiserver.start_again();
    cluster.wait_ready().await;
    let direct = cluster.admin_client();
    let new_front = Apifront::start(&cluster, |_| {}).await;
    let through_new = new_front.admin_client();
    new_front
        .warm(&through_new, "/api/v1/configmaps?resourceVersion=0")
        .await;

    // A server that has kept the state of the pages may show it, but no other state.
    for token in [text(&of_direct, "continue"), text(&of_old, "continue")] {
        let path = format!("{list}?limit=2&continue={token}");
        let page = direct.get(&path).await;
        assert_gone(&direct, &list, &page).await;
        let through = through_new.send(Method::GET, &path, &[DEBUG], "").await;
        assert_eq!(compare(&page, &through), "");
        let gone = Expect::Bypass("snapshot_gone");
        assert_eq!(gone.unmet(&through), "");
        assert_gone(&through_new, &list, &through).await;
        let kept = through_old.get(&path).await;
        if kept.status == 200 {
            assert_eq!(names(&kept.json()), ["c2", "c3"]);
        } else {
            assert_gone(&through_old, &list, &kept).await;
        }
    }
    let exact = format!("{list}?resourceVersion={version}&resourceVersionMatch=Exact");
    let message = "The resourceVersion for the provided list is too old.";
    for client in [&direct, &through_new] {
        client
            .get(&exact)
            .await
            .expect_status(410, "Expired", message);
    }
    let kept = through_old.get(&exact).await;
    match kept.status.as_u16() {
        200 => assert_eq!(names(&kept.json()), ["c0", "c1", "c2", "c3"]),
        _ => {
            kept.expect_status(410, "Expired", message);
        }
    }

    // A watch gets all later events, or an error that its version is too old.
    let path = format!("{list}?watch=1&resourceVersion={version}");
    for client in [&direct, &through_new] {
        let first = Watch::open(client, &path)
            .await
            .next()
            .await
            .expect("an event");
        assert_eq!(
            (first.kind.as_str(), &first.object["code"]),
            ("ERROR", &json!(410))
        );
    }
    let mut watch = Watch::open(&through_old, &path).await;
    let first = watch.next().await.expect("an event");
    if first.kind == "ERROR" {
        assert_eq!(first.object["code"], 410);
    } else {
        let second = watch.next().await.expect("an event");
        assert_eq!([first.short(), second.short()], ["DELETED c2", "ADDED c4"]);
    }
    drop(watch);
    old_front.stop().await;
    new_front.stop().await;
}
