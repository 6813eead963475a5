//! Lists at an exact version, pages of one version, and large lists. A server
//! without the features reads from etcd for each, and holds a large list in memory.

use std::time::Duration;

use serde_json::{Value, json};

use super::{JSON, World, version_of};
use crate::harness::client::Client;
use crate::harness::expect::{DEBUG, Expect};
use crate::harness::objects::config_map;
use crate::harness::{eventually, forwarded};

const VERSIONS: usize = 8;
/// A list of 20 MB.
const LARGE: usize = 200;
const LARGE_BYTES: usize = 100_000;
const READERS: usize = 12;

async fn reach(client: &Client, list: &str, version: u64) {
    let path = format!("{list}?resourceVersion={version}&resourceVersionMatch=NotOlderThan");
    eventually("the cache is there", Duration::from_secs(30), || async {
        let answer = client.get(&path).await;
        answer.status == 200 && answer.is_hit()
    })
    .await;
}

async fn versions(world: &World, list: &str) -> Vec<u64> {
    let mut versions = Vec::new();
    for n in 0..VERSIONS {
        let made = config_map(&format!("map-{n}"), json!({}), json!({}));
        let made = world.old().post(list, &made).await.expect(201);
        versions.push(version_of(&made));
    }
    versions
}

#[tokio::test]
async fn lists_at_an_exact_version_come_from_the_cache() {
    skip_under_oracle!("kube-apiserver does not say what came from its cache");
    let world = World::alone().await;
    let ns = world.cluster.namespace("exact").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let front = world.front.admin_client().with_header(DEBUG.0, DEBUG.1);
    reach(&front, &list, 1).await;
    let versions = versions(&world, &list).await;
    let last = *versions.last().expect("a version");
    reach(&front, &list, last).await;
    reach_plain(&world.newer(), &list, last).await;
    for (n, version) in versions.iter().enumerate() {
        let path = format!("{list}?resourceVersion={version}&resourceVersionMatch=Exact");
        let ours = front.get(&path).await;
        assert!(ours.is_hit(), "{path}: {:?}", ours.headers);
        for theirs in [world.old(), world.newer()] {
            let theirs = theirs.get(&path).await;
            assert_eq!(ours.text(), theirs.text(), "{path}");
        }
        let found = ours.expect(200)["items"].as_array().map(Vec::len);
        assert_eq!(found, Some(n + 1));
    }
}

async fn reach_plain(client: &Client, list: &str, version: u64) {
    let path = format!("{list}?resourceVersion={version}&resourceVersionMatch=NotOlderThan");
    client.get(&path).await.expect(200);
}

/// No page shows the changes and deletions between two pages.
#[tokio::test]
async fn pages_are_all_of_one_version() {
    skip_under_oracle!("kube-apiserver does not say what came from its cache");
    let world = World::alone().await;
    let ns = world.cluster.namespace("pages").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let front = world.front.admin_client().with_header(DEBUG.0, DEBUG.1);
    reach(&front, &list, 1).await;
    let version = *versions(&world, &list).await.last().expect("a version");
    reach(&front, &list, version).await;
    let whole = format!("{list}?resourceVersion={version}&resourceVersionMatch=Exact");
    let whole = world.old().get(&whole).await.expect(200);
    let first = format!("{list}?resourceVersion={version}&resourceVersionMatch=Exact&limit=3");
    let (mut path, mut items, mut hits) = (first, Vec::new(), 0);
    for turn in 0.. {
        let ours = front.get_as(&path, JSON).await;
        assert_eq!(forwarded::unmet(Expect::Hit, &path, JSON, &ours), "");
        hits += usize::from(ours.is_hit());
        let theirs = world.old().get(&path).await.expect(200);
        let page = ours.expect(200);
        assert_eq!(without_token(&page), without_token(&theirs), "{path}");
        assert_eq!(version_of(&page), version);
        items.extend(page["items"].as_array().cloned().unwrap_or_default());
        let changed = format!("{list}/map-{}", VERSIONS - 1 - turn);
        world.old().delete(&changed).await.expect(200);
        match page["metadata"]["continue"].as_str() {
            Some(token) => path = format!("{list}?limit=3&continue={token}"),
            None => break,
        }
    }
    assert_eq!(json!(items), whole["items"]);
    println!("compared: 3 answers, {hits} of them from the cache");
}

/// The key in a token begins with a slash if a cache answered, and without one if
/// etcd did. Both servers understand both.
fn without_token(page: &Value) -> Value {
    let mut page = page.clone();
    let token = page["metadata"]["continue"].take();
    page["more"] = json!(token.is_string());
    page
}

/// For readers that do not take a large list's bytes, apifront holds no copy of it.
/// The bytes are the upstream's.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn large_lists_are_streamed() {
    skip_under_oracle!("the memory is apifront's");
    let world = World::alone().await;
    let ns = world.cluster.namespace("large").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let data = json!({ "text": "x".repeat(LARGE_BYTES) });
    for n in 0..LARGE {
        let made = config_map(&format!("map-{n}"), json!({}), data.clone());
        world.old().post(&list, &made).await.expect(201);
    }
    let front = world.front.admin_client().with_header(DEBUG.0, DEBUG.1);
    let newest = world
        .old()
        .get(&format!("{list}?limit=1"))
        .await
        .expect(200);
    reach(&front, &list, version_of(&newest)).await;
    let path = format!("{list}?resourceVersion=0");
    let ours = front.get(&path).await;
    assert!(ours.is_hit() && ours.body.len() > LARGE * LARGE_BYTES);
    let theirs = world.newer().get(&list).await;
    let rest = |body: &[u8]| body.iter().skip(200).copied().collect::<Vec<u8>>();
    assert!(rest(&ours.body) == rest(&theirs.body), "the bodies differ");
    let before = world.front.process.resident_bytes();
    let mut unread = Vec::new();
    for _ in 0..READERS {
        let response = front.separate().open(&path, &[]).await;
        assert_eq!(response.status(), 200);
        unread.push(response);
    }
    crate::harness::pace::lasting(Duration::from_secs(1)).await;
    let grown = world.front.process.resident_bytes().saturating_sub(before);
    let one = u64::try_from(ours.body.len()).expect("small");
    println!("{READERS} unread lists of {one} bytes: {grown} bytes more");
    assert!(
        grown < 4 * one,
        "{grown} bytes for {READERS} lists of {one}"
    );
}
