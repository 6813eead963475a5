//! kube-apiserver is killed and restarted during writes. No watcher may miss, repeat
//! or reorder a change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::objects::config_map;
use crate::harness::watch::{Event, Watch};

const WATCHERS: usize = 5;
const LAST: &str = "last";
const NAMES: usize = 12;
/// The duration of each phase: writing before the kill, without a server, and after
/// the restart.
const PHASE: Duration = Duration::from_millis(1500);
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

/// A watching client's view of the objects: version by name.
#[derive(Default)]
struct Replay {
    objects: BTreeMap<String, u64>,
    version: u64,
    relists: usize,
    streams: usize,
}

impl Replay {
    async fn list(&mut self, client: &Client, list: &str) -> anyhow::Result<()> {
        let answer = client.try_send(Method::GET, list, &[], "").await?;
        anyhow::ensure!(answer.status == 200, "{}", answer.text());
        let found = answer.json();
        let version = |meta: &serde_json::Value| -> u64 {
            let text = meta["resourceVersion"].as_str().expect("version");
            text.parse().expect("a number")
        };
        assert!(
            version(&found["metadata"]) >= self.version,
            "a list went back in time"
        );
        self.version = version(&found["metadata"]);
        self.objects.clear();
        for item in found["items"].as_array().expect("items") {
            let name = item["metadata"]["name"].as_str().expect("name");
            self.objects
                .insert(name.to_owned(), version(&item["metadata"]));
        }
        Ok(())
    }

    /// Applies an event. Returns false if the server tells the client to list again.
    fn apply(&mut self, event: &Event) -> bool {
        if event.kind == "ERROR" {
            assert_eq!(event.object["code"], 410, "{}", event.line);
            return false;
        }
        let (at, name) = (event.version(), event.name().to_owned());
        if event.kind == "BOOKMARK" {
            assert!(
                at >= self.version,
                "a bookmark went back in time: {}",
                event.line
            );
            self.version = at;
            return true;
        }
        // Several deletions found by one relist may have the same version.
        let forward = at > self.version || (event.kind == "DELETED" && at == self.version);
        assert!(forward, "{at} after {}: {}", self.version, event.line);
        self.version = at;
        match event.kind.as_str() {
            "ADDED" => {
                let before = self.objects.insert(name, at);
                assert!(before.is_none(), "added twice: {}", event.line);
            }
            "MODIFIED" => {
                let before = self.objects.insert(name, at);
                assert!(
                    before.is_some(),
                    "modified before it was added: {}",
                    event.line
                );
            }
            "DELETED" => {
                let before = self.objects.remove(&name);
                assert!(
                    before.is_some(),
                    "deleted before it was added: {}",
                    event.line
                );
            }
            other => panic!("event type {other}"),
        }
        true
    }

    /// Lists and watches until `stop`. Increments `arrived` when [`LAST`] arrives.
    async fn follow(
        mut self,
        client: Client,
        list: String,
        stop: &AtomicBool,
        arrived: &AtomicUsize,
    ) -> Self {
        let mut has_last = false;
        while self.list(&client, &list).await.is_err() {
            crate::harness::pace::of_tries(Duration::from_millis(50)).await;
        }
        while !stop.load(Ordering::Relaxed) {
            let path = format!(
                "{list}?watch=1&allowWatchBookmarks=true&resourceVersion={}",
                self.version
            );
            let Ok(mut watch) = Watch::try_open(&client, &path).await else {
                crate::harness::pace::of_tries(Duration::from_millis(50)).await;
                continue;
            };
            self.streams += 1;
            while !stop.load(Ordering::Relaxed) {
                if !has_last && self.objects.contains_key(LAST) {
                    has_last = true;
                    arrived.fetch_add(1, Ordering::Relaxed);
                }
                match watch.next_within(Duration::from_millis(100)).await {
                    None => {}
                    Some(Err(_)) => break,
                    Some(Ok(event)) if self.apply(&event) => {}
                    Some(Ok(_)) => {
                        self.relists += 1;
                        while self.list(&client, &list).await.is_err() {}
                        break;
                    }
                }
            }
        }
        self
    }
}

/// Creates, changes and deletes until told to stop. Failures are expected. Returns
/// the number of acknowledged writes.
async fn write(client: Client, list: &str, stop: &AtomicBool) -> usize {
    let mut acknowledged = 0;
    for n in 0usize.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("c{}", n % NAMES);
        let path = format!("{list}/{name}");
        let json = [("content-type", "application/json")];
        let merge = [("content-type", "application/merge-patch+json")];
        let answer = match n / NAMES % 3 {
            0 => {
                let body = config_map(&name, json!({}), json!({ "n": n.to_string() }));
                client
                    .try_send(Method::POST, list, &json, body.to_string())
                    .await
            }
            1 => {
                let body = json!({ "data": { "n": n.to_string() } });
                client
                    .try_send(Method::PATCH, &path, &merge, body.to_string())
                    .await
            }
            _ => client.try_send(Method::DELETE, &path, &[], "").await,
        };
        acknowledged += usize::from(answer.is_ok_and(|a| a.status.is_success()));
        crate::harness::pace::of_load(Duration::from_millis(5)).await;
    }
    acknowledged
}

/// Checks watchers of one server during a restart of the API server. The API
/// server's own streams end when it dies; apifront's need not end.
async fn no_event_is_lost(cluster: &mut Cluster, watched: Client) -> Vec<Replay> {
    let ns = cluster.namespace("restart").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let (stop_writing, stop_watching) = (AtomicBool::new(false), AtomicBool::new(false));
    let arrived = AtomicUsize::new(0);
    let direct = cluster.admin_client();
    let watchers = (0..WATCHERS).map(|_| {
        Replay::default().follow(watched.separate(), list.clone(), &stop_watching, &arrived)
    });
    let writer = write(direct.clone(), &list, &stop_writing);
    let disturb = async {
        crate::harness::pace::lasting(PHASE).await;
        cluster.apiserver.kill();
        crate::harness::pace::lasting(PHASE).await;
        cluster.apiserver.start_again();
        cluster.wait_ready().await;
        crate::harness::pace::lasting(PHASE).await;
        stop_writing.store(true, Ordering::Relaxed);
    };
    let finish = async {
        let (acknowledged, ()) = tokio::join!(writer, disturb);
        assert!(acknowledged > 2 * NAMES, "only {acknowledged} writes");
        // Every watcher must see this last write.
        let last = config_map(LAST, json!({}), json!({}));
        direct.post(&list, &last).await.expect(201);
        // A watcher whose server was down tries again after a pause. The checks
        // below find a watcher that never sees the write.
        let deadline = tokio::time::Instant::now() + ARRIVES_WITHIN;
        while arrived.load(Ordering::Relaxed) < WATCHERS && tokio::time::Instant::now() < deadline {
            crate::harness::pace::of_tries(Duration::from_millis(50)).await;
        }
        stop_watching.store(true, Ordering::Relaxed);
    };
    let both = async { tokio::join!(futures::future::join_all(watchers), finish) };
    let (replays, ()) = tokio::time::timeout(4 * ARRIVES_WITHIN, both)
        .await
        .expect("an end");

    let mut truth = Replay::default();
    truth.list(&direct, &list).await.expect("the final list");
    for replay in &replays {
        assert_eq!(
            replay.objects, truth.objects,
            "what a watcher believes, and the truth"
        );
    }
    replays
}

#[tokio::test]
async fn kube_apiserver() {
    let mut cluster = Cluster::leased(&[]).await;
    let client = cluster.admin_client();
    no_event_is_lost(&mut cluster, client).await;
}

#[tokio::test]
async fn apifront() {
    let mut cluster = Cluster::leased(&[]).await;
    let front = Apifront::start(&cluster, |_| {}).await;
    let replays = no_event_is_lost(&mut cluster, front.admin_client()).await;
    for replay in &replays {
        // The restart must not make clients list.
        assert_eq!(replay.relists, 0);
    }
    front.stop().await;
}
