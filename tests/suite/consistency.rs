//! What a read without a resourceVersion gets, in each consistency mode.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::apifront::{Apifront, oracle};
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;

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

/// Writes to the API server, each followed by a read through apifront. Returns
/// how many reads missed the write before them, and how many were hits.
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

/// The most recent state is upstream's to give.
#[tokio::test]
async fn strict_reads_see_every_write_before_them() {
    if oracle() {
        return;
    }
    assert_eq!(reads_after_writes("Strict").await, (0, 0));
}

/// Every read waited for a proof that began after it arrived. The proof bounds
/// staleness by the lateness of events, it does not exclude it.
#[tokio::test]
async fn fresh_reads_come_from_the_cache_and_see_the_writes_before_them() {
    if oracle() {
        return;
    }
    let (missed, hits) = reads_after_writes("Fresh").await;
    assert_eq!(hits, WRITES);
    assert!(missed <= 1, "{missed} of {WRITES} reads were stale");
}

/// A proof is good for `maxStaleness`.
#[tokio::test]
async fn bounded_reads_may_lag() {
    if oracle() {
        return;
    }
    let (_, hits) = reads_after_writes("Bounded").await;
    assert_eq!(hits, WRITES);
}

/// What a page would have to be cut from is upstream's as long as snapshots are
/// not kept.
#[tokio::test]
async fn lists_that_need_pages_are_forwarded() {
    if oracle() {
        return;
    }
    let front = front("Fresh").await;
    let ns = Cluster::shared().namespace("paged").await;
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
    let (found, cache) = names(&client, &format!("{list}?limit=2")).await;
    assert_eq!((found.len(), cache.as_str()), (2, "bypass; reason=chunked"));
    front.stop().await;
}
