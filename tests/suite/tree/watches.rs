//! Watches through both instances.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Tree, version, watchers};
use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::objects::config_map;
use crate::harness::watch::Watch;

const SOON: Duration = Duration::from_secs(30);
const WATCHERS: usize = 20;
const CHANGES: usize = 30;
/// kube-apiserver sends a bookmark each minute. The rest allows for a busy machine.
const BOOKMARK_WITHIN: Duration = Duration::from_secs(75);

/// The lower instance watches the upper one once, and that watches kube-apiserver
/// once, however many clients watch. Every watcher gets kube-apiserver's events.
#[tokio::test]
async fn each_watches_the_next_one_once() {
    skip_under_oracle!("there are no hops");
    let tree = Tree::shared();
    let [direct, _, lower] = tree.ways();
    let namespace = tree.cluster.namespace("once").await;
    let path = format!("/api/v1/namespaces/{namespace}/secrets");
    // kube-apiserver itself watches secrets, too.
    let labels = [("resource", "secrets"), ("verb", "WATCH")];
    let open = async || {
        let open = tree
            .cluster
            .metric("apiserver_longrunning_requests", &labels);
        open.await
    };
    let own = open().await;
    tree.lower.warm(&lower, &path).await;
    let list = direct.get(&path).await.expect(200);
    let watch = format!("{path}?watch=1&resourceVersion={}", version(&list));
    let mut watches = Vec::new();
    for _ in 0..WATCHERS {
        watches.push(Watch::open(&lower, &watch).await);
    }
    let mut theirs = Watch::open(&direct, &watch).await;
    for n in 0..CHANGES {
        let mut object = config_map(&format!("object-{n}"), json!({}), json!({}));
        object["kind"] = json!("Secret");
        direct.post(&path, &object).await.expect(201);
        direct
            .delete(&format!("{path}/object-{n}"))
            .await
            .expect(200);
    }
    let lines = |events: Vec<crate::harness::watch::Event>| -> Vec<String> {
        events.into_iter().map(|event| event.line).collect()
    };
    let expected = lines(theirs.take(2 * CHANGES).await);
    for watch in &mut watches {
        assert_eq!(lines(watch.take(2 * CHANGES).await), expected);
    }
    drop(theirs);
    assert_eq!(watchers(&tree.lower, "secrets").await, WATCHERS as u64);
    assert_eq!(watchers(&tree.upper, "secrets").await, 1);
    eventually("one watch of kube-apiserver", SOON, || async {
        (open().await - own - 1.0).abs() < 0.5
    })
    .await;
}

/// The first watch of an informer has its initial events, the bookmark after them,
/// and later events.
#[tokio::test]
async fn a_watch_list_comes_through_both() {
    skip_under_oracle!("there are no hops");
    let tree = Tree::shared();
    let [direct, _, lower] = tree.ways();
    let list = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    tree.lower.warm(&lower, list).await;
    let watch = format!(
        "{list}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
         &allowWatchBookmarks=true"
    );
    let mut streams = Vec::new();
    for client in [&direct, &lower] {
        let mut stream = Watch::open(client, &watch).await;
        let mut lines = Vec::new();
        loop {
            let event = stream.next().await.expect("an event");
            if event.kind == "BOOKMARK" {
                let annotation = &event.object["metadata"]["annotations"];
                assert_eq!(annotation["k8s.io/initial-events-end"], "true");
                break;
            }
            lines.push(event.line);
        }
        // kube-apiserver sends them in no particular order.
        lines.sort_unstable();
        streams.push((stream, lines));
    }
    assert_eq!(streams[0].1, streams[1].1);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "created-later" },
    });
    direct.post(list, &role).await.expect(201);
    let mut later = Vec::new();
    for (stream, _) in &mut streams {
        later.push(stream.take(1).await.remove(0).line);
    }
    assert_eq!(later[0], later[1]);
}

/// A watcher of a quiet resource learns the cluster's progress each minute, through
/// every way. A hop must not delay the first bookmark by another minute.
#[tokio::test]
async fn the_bookmark_of_the_first_minute_comes_through_both() {
    skip_under_oracle!("there are no hops");
    let tree = Tree::shared();
    let [direct, upper, lower] = tree.ways();
    let path = "/api/v1/podtemplates";
    tree.lower.warm(&lower, path).await;
    tree.upper.warm(&upper, path).await;
    let list = direct.get(path).await.expect(200);
    let from: u64 = version(&list).parse().expect("a number");
    let watch = format!("{path}?watch=1&resourceVersion={from}&allowWatchBookmarks=true");
    // kube-apiserver's watch cache learns versions of other resources from etcd when
    // a read has to wait for them.
    let goes_on = async {
        let maps = "/api/v1/namespaces/default/configmaps";
        let object = config_map("goes-on", json!({}), json!({}));
        direct.post(maps, &object).await.expect(201);
        for n in 0.. {
            let object = config_map("goes-on", json!({}), json!({ "n": n.to_string() }));
            let one = format!("{maps}/goes-on");
            direct.put(&one, &object).await.expect(200);
            direct.get(path).await.expect(200);
            crate::harness::pace::of_load(Duration::from_secs(1)).await;
        }
    };
    let hear = async |client: &Client| {
        let began = Instant::now();
        let mut stream = Watch::open(client, &watch).await;
        let event = stream.next_within(BOOKMARK_WITHIN).await?;
        let event = event.expect("an event");
        assert_eq!(event.kind, "BOOKMARK");
        let reached: u64 = version(&event.object).parse().expect("a number");
        Some((began.elapsed().as_secs(), reached > from))
    };
    let heard = async { tokio::join!(hear(&direct), hear(&upper), hear(&lower)) };
    let (theirs, upper, lower) = tokio::select! {
        heard = heard => heard,
        () = goes_on => unreachable!("it goes on"),
    };
    println!("seconds until the first bookmark: {theirs:?}, {upper:?}, {lower:?}");
    for heard in [theirs, upper, lower] {
        assert!(heard.is_some_and(|(_, is_later)| is_later), "{heard:?}");
    }
}
