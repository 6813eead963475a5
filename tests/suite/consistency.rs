//! Checks which writes a read without a resourceVersion sees, in each consistency
//! mode.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::apifront::{Apifront, oracle};
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::expect::Expect;
use crate::harness::forwarded;
use crate::harness::media_types::PROTOBUF;
use crate::harness::release::Release;
use crate::harness::watch::Watch;

const WRITES: usize = 60;

async fn front(mode: &str) -> Apifront {
    Apifront::start(Cluster::shared(), |config| {
        config["cache"]["consistency"] = json!(mode);
        config["cache"]["maxStaleness"] = json!("30s");
    })
    .await
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

async fn names(client: &Client, list: &str) -> (Vec<String>, String) {
    let answer = client.get(list).await;
    let items = answer.expect(200)["items"].clone();
    let items = items.as_array().cloned().unwrap_or_default();
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap_or("").to_owned();
    (
        items.iter().map(name).collect(),
        answer.header("x-apifront-cache").to_owned(),
    )
}

/// Writes to the API server, and reads through apifront after each write.
/// Returns the number of reads that missed the write before them, and the
/// number of hits.
async fn reads_after_writes(mode: &str) -> (usize, usize) {
    let front = front(mode).await;
    let cluster = Cluster::shared();
    let ns = cluster
        .namespace(&format!("fresh-{}", mode.to_lowercase()))
        .await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let direct = cluster.admin_client();
    let through = front
        .admin_client()
        .with_header("x-apifront-debug", "cache");
    front
        .warm(&through, "/api/v1/configmaps?resourceVersion=0")
        .await;
    let (mut missed, mut hits) = (0, 0);
    for i in 0..WRITES {
        let name = format!("cm-{i}");
        direct.post(&list, &config_map(&name)).await.expect(201);
        let (found, cache) = names(&through, &list).await;
        missed += usize::from(!found.contains(&name));
        hits += usize::from(cache.starts_with("hit"));
    }
    front.stop().await;
    (missed, hits)
}

/// Each read shares an upstream read that began after the write.
#[tokio::test]
async fn strict_reads_see_every_write_before_them() {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    assert_eq!(reads_after_writes("Strict").await, (0, WRITES));
}

/// Every read waits for a proof that began after the read arrived. The proof limits
/// staleness to the delay of events, but does not exclude it.
#[tokio::test]
async fn fresh_reads_come_from_the_cache_and_see_the_writes_before_them() {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    let (missed, hits) = reads_after_writes("Fresh").await;
    assert_eq!(hits, WRITES);
    assert!(missed <= 1, "{missed} of {WRITES} reads were stale");
}

/// A proof is valid for `maxStaleness`.
#[tokio::test]
async fn bounded_reads_may_lag() {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    let (_, hits) = reads_after_writes("Bounded").await;
    assert_eq!(hits, WRITES);
}

/// Once proven fresh, the state is served in pages as any other.
#[tokio::test]
async fn fresh_lists_come_in_pages() {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    let front = front("Fresh").await;
    let ns = Cluster::shared().namespace("fresh-pages").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let client = front
        .admin_client()
        .with_header("x-apifront-debug", "cache");
    for name in ["a", "b", "c"] {
        client.post(&list, &config_map(name)).await.expect(201);
    }
    front
        .warm(&client, "/api/v1/configmaps?resourceVersion=0")
        .await;
    eventually("the cache has them", Duration::from_secs(10), || async {
        names(&client, &format!("{list}?resourceVersion=0"))
            .await
            .0
            .len()
            >= 3
    })
    .await;
    let (found, cache) = names(&client, &format!("{list}?limit=500")).await;
    assert!(
        found.len() >= 3 && cache.starts_with("hit"),
        "{found:?} {cache}"
    );
    let path = format!("{list}?limit=2");
    let answer = client.get(&path).await;
    assert_eq!(forwarded::unmet(Expect::Hit, &path, "", &answer), "");
    let found = answer.expect(200)["items"].as_array().map(Vec::len);
    assert_eq!(found, Some(2));
    front.stop().await;
}

/// The version of the first page is later than the last change of the resource, and
/// may be later than all that the watch has told.
#[tokio::test]
async fn strict_pages_of_a_quiet_resource_come_from_memory() {
    skip_under_oracle!("kube-apiserver has no consistency modes");
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    let cluster = Cluster::shared();
    let (direct, ns) = (cluster.admin_client(), cluster.namespace("quiet").await);
    let list = format!("/api/v1/namespaces/{ns}/podtemplates");
    for name in NAMES {
        let containers = json!([{ "name": "c", "image": "i" }]);
        let template = json!({
            "metadata": { "name": name }, "template": { "spec": { "containers": containers } },
        });
        direct.post(&list, &template).await.expect(201);
    }
    let front = Apifront::shared();
    let client = front.admin_client();
    front.warm(&client, &list).await;
    let others = format!("/api/v1/namespaces/{ns}/configmaps");
    direct.post(&others, &config_map("later")).await.expect(201);
    let client = client.with_header("x-apifront-debug", "cache");
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let path = format!("{list}?limit=2{next}");
        let answer = client.get(&path).await;
        assert_eq!(forwarded::unmet(Expect::Hit, &path, "", &answer), "");
        let page = answer.expect(200);
        let items = page["items"].as_array().expect("items").iter();
        found.extend(items.map(|item| item["metadata"]["name"].clone()));
        match page["metadata"]["continue"].as_str() {
            Some(token) => next = format!("&continue={token}"),
            None => break,
        }
    }
    assert_eq!(found, NAMES);
}

/// apifront learns the version of a write from the answer. If the answer has no
/// version, the next reads are forwarded.
async fn own_writes(mode: &str) {
    let front = front(mode).await;
    let ns = Cluster::shared().namespace("own").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let client = front
        .admin_client()
        .with_header("x-apifront-debug", "cache");
    front
        .warm(&client, "/api/v1/configmaps?resourceVersion=0")
        .await;
    let mut hits = 0;
    for i in 0..WRITES {
        let path = format!("{list}/cm-{i}");
        let object = config_map(&format!("cm-{i}"));
        let accept = if i % 2 == 0 {
            PROTOBUF
        } else {
            "application/json"
        };
        let headers = [("content-type", "application/json"), ("accept", accept)];
        let made = client
            .send(http::Method::POST, &list, &headers, object.to_string())
            .await;
        assert_eq!(made.status, 201, "{}", made.text());
        let (found, cache) = names(&client, &list).await;
        assert!(found.contains(&format!("cm-{i}")), "{mode}: {i} {found:?}");
        hits += usize::from(cache.starts_with("hit"));
        let changed = json!({"data": {"n": i.to_string()}});
        client
            .patch(&path, "merge-patch+json", &changed)
            .await
            .expect(200);
        let read = client.get(&path).await.expect(200);
        assert_eq!(read["data"]["n"], i.to_string(), "{mode}");
    }
    for i in 0..5 {
        let path = format!("{list}/cm-{i}");
        client.delete(&path).await.expect(200);
        client.get(&path).await.expect(404);
        let (found, _) = names(&client, &list).await;
        assert!(!found.contains(&format!("cm-{i}")), "{mode}: {found:?}");
    }
    assert_eq!(hits, WRITES, "{mode}");
    front.stop().await;
}

#[tokio::test]
async fn clients_see_their_own_writes_in_strict_mode() {
    if !oracle() {
        own_writes("Strict").await;
    }
}

#[tokio::test]
async fn clients_see_their_own_writes_in_fresh_mode() {
    if !oracle() {
        own_writes("Fresh").await;
    }
}

#[tokio::test]
async fn clients_see_their_own_writes_in_bounded_mode() {
    if !oracle() {
        own_writes("Bounded").await;
    }
}

/// The first page comes from a shared read, and later pages from the same state. The
/// API server may give any of the pages instead.
#[tokio::test]
async fn pages_of_the_most_recent_state() {
    skip_under_oracle!("kube-apiserver does not say what came from its cache");
    let front = front("Strict").await;
    let cluster = Cluster::shared();
    let ns = cluster.namespace("paged").await;
    let direct = cluster.admin_client();
    for n in 0..7 {
        let object = json!({
            "apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": format!("lr-{n}")},
            "spec": {"limits": []},
        });
        let path = format!("/api/v1/namespaces/{ns}/limitranges");
        direct.post(&path, &object).await.expect(201);
    }
    let all = "/api/v1/limitranges";
    let through = front
        .admin_client()
        .with_header("x-apifront-debug", "cache");
    front
        .warm(&through, &format!("{all}?resourceVersion=0"))
        .await;
    let (mut path, mut found, mut versions) = (format!("{all}?limit=2"), Vec::new(), Vec::new());
    for turn in 0.. {
        let client = if turn == 2 { &direct } else { &through };
        let answer = client.get(&path).await;
        let page = answer.expect(200);
        // Before 1.34, a page that another one follows comes from the upstream,
        // whose version the cache may reach later.
        if turn != 2 && Release::at_least(34) {
            let unmet = forwarded::unmet(Expect::Hit, &path, "", &answer);
            assert_eq!(unmet, "", "{turn}");
        }
        let items = page["items"].as_array().cloned().unwrap_or_default();
        found.extend(items.iter().map(|i| i["metadata"]["uid"].clone()));
        versions.push(page["metadata"]["resourceVersion"].clone());
        match page["metadata"]["continue"].as_str() {
            Some(token) => path = format!("{all}?limit=2&continue={token}"),
            None => break,
        }
    }
    assert!(versions.iter().all(|v| *v == versions[0]), "{versions:?}");
    let version = versions[0].as_str().expect("a version");
    let exact = format!("{all}?resourceVersion={version}&resourceVersionMatch=Exact");
    let exact = direct.get(&exact).await.expect(200);
    let exact = exact["items"].as_array().cloned().unwrap_or_default();
    let exact: Vec<_> = exact.iter().map(|i| i["metadata"]["uid"].clone()).collect();
    assert_eq!(found, exact);
    assert!(found.len() >= 7);
    front.stop().await;
}

/// A watch without an initial state still begins at the newest version.
#[tokio::test]
async fn a_watch_from_the_most_recent_version() {
    skip_under_oracle!("kube-apiserver does not say what came from its cache");
    let front = front("Strict").await;
    let cluster = Cluster::shared();
    let ns = cluster.namespace("now").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let (direct, through) = (cluster.admin_client(), front.admin_client());
    front
        .warm(&through, "/api/v1/configmaps?resourceVersion=0")
        .await;
    let options = "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    for n in 0..10 {
        let name = |what: &str| format!("{what}-{n}");
        direct
            .post(&list, &config_map(&name("before")))
            .await
            .expect(201);
        let mut watch = Watch::open(&through, &format!("{list}?{options}")).await;
        direct
            .post(&list, &config_map(&name("after")))
            .await
            .expect(201);
        assert_eq!(
            watch.take_short(1).await,
            [format!("ADDED {}", name("after"))]
        );
    }
    front.stop().await;
}
