//! Compares recorded watches with etcd's own log: no event may be lost, repeated or
//! out of order. Without a relist of a reflector this holds literally. Across a
//! relist, later events of the same object may overtake earlier ones.

mod cold_start;
mod judge;
mod recorder;
mod resumed;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::join_all;
use http::Method;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::etcd::Written;
use crate::harness::objects::config_map;
use crate::harness::{eventually, volume};
use judge::{CHOSEN, Selects};
use recorder::{Pace, Recorded, Recorder};

const NAMES: usize = 10;
const ONE: &str = "c3";
/// The object that is written last.
const LAST: &str = "zz-last";
const CONFIG_MAPS: &str = "/api/v1/configmaps?resourceVersion=0";
/// The recorded watches want bookmarks. A server without WatchList shows one only
/// seconds after it was listed. Watches before that are forwarded, and expire when
/// the server has forgotten their version.
const MARKED: &str =
    "/api/v1/configmaps?watch=1&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion=";
/// The least number of writes, however busy the machine is.
const LEAST_WRITES: usize = 150;
/// The duration of writing between two disturbances.
const PHASE: Duration = Duration::from_millis(1500);
const REPLACED_WITHIN: Duration = Duration::from_secs(60);
const ENDS_WITHIN: Duration = Duration::from_secs(180);

fn version(object: &serde_json::Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str();
    text.expect("a version").parse().expect("a number")
}

/// Waits until lists and watches are answered from the cache.
async fn warm(front: &Apifront, client: &Client) {
    front.warm(client, CONFIG_MAPS).await;
    let listed = client.get(CONFIG_MAPS).await.expect(200);
    let version = listed["metadata"]["resourceVersion"].as_str();
    let marked = format!("{MARKED}{}", version.expect("a version"));
    front.warm(client, &marked).await;
}

/// Creates, changes, relabels and deletes until told to stop and enough is written.
/// Failures are expected in some tests; etcd knows which writes succeeded.
async fn write(client: &Client, list: &str, seed: u64, padding: usize, stop: &AtomicBool) {
    let mut rng = StdRng::seed_from_u64(seed);
    let json = [("content-type", "application/json")];
    let merge = [("content-type", "application/merge-patch+json")];
    let mut taken = 0;
    while !stop.load(Ordering::Relaxed) || taken < LEAST_WRITES {
        let name = format!("c{}", rng.random_range(0..NAMES));
        let path = format!("{list}/{name}");
        let label = if rng.random_bool(0.5) { CHOSEN } else { "not" };
        let labels = json!({ "choice": label });
        let data = json!({ "n": rng.random::<u32>().to_string(), "padding": "x".repeat(padding) });
        let answer = match rng.random_range(0..10) {
            0..4 => {
                let body = config_map(&name, labels, data).to_string();
                client.try_send(Method::POST, list, &json, body).await
            }
            4..8 => {
                let body = json!({ "metadata": { "labels": labels }, "data": data });
                let body = body.to_string();
                client.try_send(Method::PATCH, &path, &merge, body).await
            }
            _ => client.try_send(Method::DELETE, &path, &[], "").await,
        };
        taken += usize::from(answer.as_ref().is_ok_and(|a| a.status.is_success()));
        let pause = if answer.is_ok() { 4 } else { 50 };
        crate::harness::pace::of_load(Duration::from_millis(pause)).await;
    }
}

/// Returns a recorder for each selection and pace. The last one watches a single
/// name, and therefore does not see [`LAST`].
fn recorders(client: &Client, list: &str) -> Vec<(Recorder, Selects)> {
    let recorder = |selector, pace, selects| {
        let recorder = Recorder {
            client: client.separate(),
            list: list.to_owned(),
            selector,
            pace,
        };
        (recorder, selects)
    };
    let chosen = "&labelSelector=choice%3Dchosen-by-label";
    let one = "&fieldSelector=metadata.name%3Dc3";
    let (steady, slow) = (Pace::Steady, Pace::Slow(Duration::from_secs(4)));
    vec![
        recorder("", steady, Selects::All),
        recorder("", Pace::Restless(7), Selects::All),
        recorder("", slow, Selects::All),
        recorder(chosen, steady, Selects::Chosen),
        recorder(chosen, Pace::Restless(3), Selects::Chosen),
        recorder(one, steady, Selects::Name(ONE)),
    ]
}

/// The writes in etcd's log, and the events that watchers received.
struct Record {
    log: Vec<Written>,
    heard: Vec<(Recorded, Selects)>,
}

/// Writes and records while `disturb` runs.
async fn record(
    cluster: &mut Cluster,
    client: Client,
    padding: usize,
    disturb: impl AsyncFnOnce(&mut Cluster),
) -> Record {
    let seed = volume::seed("watch history");
    let direct = cluster.admin_client();
    let ns = cluster.namespace("history").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let from = cluster.etcd.revision().await;
    let prefix = format!("/registry/configmaps/{ns}/");
    let log = cluster.etcd.log(&prefix, from + 1).await;
    let (stop_writing, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let (recorders, selections): (Vec<_>, Vec<_>) = recorders(&client, &list).into_iter().unzip();
    let mut following: Vec<_> = recorders
        .into_iter()
        .map(|recorder| recorder.follow(from, LAST, &stop))
        .collect();
    let single = following.pop().expect("recorders");
    let all_others = async {
        let heard = join_all(following).await;
        stop.store(true, Ordering::Relaxed);
        heard
    };
    let writing = async {
        write(&direct, &list, seed, padding, &stop_writing).await;
        let last = config_map(LAST, json!({ "choice": CHOSEN }), json!({}));
        direct.post(&list, &last).await.expect(201);
    };
    let disturbing = async {
        disturb(cluster).await;
        stop_writing.store(true, Ordering::Relaxed);
    };
    let all = async { tokio::join!(log.until(LAST), writing, disturbing, all_others, single) };
    let all = tokio::time::timeout(ENDS_WITHIN, all).await;
    let (log, (), (), mut heard, single) = all.expect("everybody heard of the last write");
    heard.push(single);
    Record {
        log,
        heard: heard.into_iter().zip(selections).collect(),
    }
}

impl Record {
    fn assert_complete(&self) {
        for (recorded, selects) in &self.heard {
            judge::assert_complete(recorded, &self.log, *selects);
        }
        self.tell(0);
    }

    fn assert_caught_up(&self) {
        let overtaken = self
            .heard
            .iter()
            .map(|(recorded, selects)| judge::assert_caught_up(recorded, &self.log, *selects));
        self.tell(overtaken.sum());
    }

    fn tell(&self, overtaken: usize) {
        let events: usize = self.heard.iter().map(|h| h.0.events.len()).sum();
        let streams: usize = self.heard.iter().map(|h| h.0.streams).sum();
        println!(
            "{} writes; {} watchers heard {events} events over {streams} streams, \
             {overtaken} were overtaken",
            self.log.len(),
            self.heard.len(),
        );
    }
}

/// Streams end, clients resume, and some do not read for seconds, while more bytes
/// are written than sockets hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_and_restless_watchers_hear_everything() {
    let mut cluster = Cluster::leased(&[]).await;
    let front = Apifront::start(&cluster, |_| {}).await;
    let client = front.admin_client();
    warm(&front, &client).await;
    let record = record(&mut cluster, client, 20_000, async |_| {
        crate::harness::pace::lasting(4 * PHASE).await;
    });
    record.await.assert_complete();
    front.stop().await;
}

/// The API server dies twice, and etcd is compacted in between. The upstream can
/// resume no known version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_and_compaction() {
    // The API server's own watchers have to list again.
    skip_under_oracle!("it is about apifront's reflectors");
    let mut cluster = Cluster::leased(&[]).await;
    let front = Apifront::start(&cluster, |_| {}).await;
    let client = front.admin_client();
    warm(&front, &client).await;
    let record = record(&mut cluster, client, 10, async |cluster| {
        for _ in 0..2 {
            crate::harness::pace::lasting(PHASE).await;
            cluster.apiserver.kill();
            let revision = cluster.etcd.revision().await;
            cluster.etcd.compact(revision).await;
            crate::harness::pace::lasting(PHASE).await;
            cluster.apiserver.start_again();
            cluster.wait_ready().await;
        }
        crate::harness::pace::lasting(2 * PHASE).await;
    });
    record.await.assert_caught_up();
    front.stop().await;
}

/// A configuration with another way to the same API server restarts every reflector,
/// but clients stay connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_upstreams() {
    skip_under_oracle!("it is about apifront's reflectors");
    let mut cluster = Cluster::leased(&[]).await;
    let front = Apifront::start(&cluster, |_| {}).await;
    let client = front.admin_client();
    warm(&front, &client).await;
    let restarts = async || {
        let reason = [("resource", "configmaps"), ("reason", "upstream_replaced")];
        let name = "apifront_reflector_restarts_total";
        front.metric(name, &reason).await
    };
    let record = record(&mut cluster, client, 10, async |cluster| {
        for n in 1..=3 {
            crate::harness::pace::lasting(PHASE).await;
            let copy = cluster.folder.join(format!("front-{n}.kubeconfig"));
            std::fs::copy(&cluster.front_kubeconfig, &copy).expect("a copy");
            let mut config = front.read_config();
            config["upstream"]["kubeconfig"] = json!(copy);
            front.write_config(&config);
            eventually("the reflector starts anew", REPLACED_WITHIN, || async {
                restarts().await >= f64::from(n)
            })
            .await;
        }
        crate::harness::pace::lasting(2 * PHASE).await;
    });
    record.await.assert_caught_up();
    front.stop().await;
}
