//! Measures the cost of dividing a resource among several readers, as
//! kube-state-metrics does. Either each reader has a `shardSelector` (KEP-5866), or
//! each watches everything and drops the objects of others. apifront serves shards
//! before a kube-apiserver that does not; a second kube-apiserver, with the feature
//! gate, serves them itself. TLS, HTTP/2, JSON.
//!
//! `make bench ARGS='sharded_watch --shards 8 --updates 300'`

use std::time::Duration;

use crate::support::report::{self, Goal, median};
use crate::support::servers::Server;
use crate::support::{argument, cores, count, pods, require, watches};
use harness::apiserver::KubeApiserver;
use harness::client::Client;
use harness::cluster::Cluster;
use harness::eventually;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;

const GATE: &str = "--feature-gates=ShardedListAndWatch=true";
const PODS: usize = 400;
/// A pause of this length means that all events of a round have arrived. A shard
/// gets only some of the events.
const QUIET: Duration = Duration::from_secs(2);
/// The most that all shards together may cost, relative to one whole watch: an event
/// is made once and looked up once, whatever the number of shards.
const GOAL: f64 = 1.2;

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(sharded_watch());
}

async fn sharded_watch() {
    let (shards, updates) = (count("shards", 8), count("updates", 300));
    let cluster = Cluster::start(&[]).await;
    let writer = cluster.admin_client();
    pods::create(&writer, PODS).await;
    cores::pin(std::process::id(), cores::SERVER);
    let gated = gated(&cluster).await;
    let front = harness::apifront::Apifront::start(&cluster, |config| {
        config["cache"]["shardedListAndWatch"] = json!("Always");
    })
    .await;
    cores::pin(std::process::id(), cores::CLIENT);
    let client = front.admin_client();
    front.warm(&client, "/api/v1/pods?resourceVersion=0").await;
    let servers = [
        Server {
            name: "kube-apiserver, gate on",
            client: Client::tls(gated.address(), cluster.ca(), Some(&cluster.admin)),
            pid: gated.pid(),
        },
        Server {
            name: "apifront, gate off above",
            client,
            pid: front.process.pid(),
        },
    ];
    let mut rows = Vec::new();
    let mut times_one = f64::NAN;
    for server in &servers {
        let _warm_up = round(server, &writer, updates, &[]).await;
        let mut rounds = [const { Vec::new() }; 4];
        for _ in 0..argument("rounds", 3) {
            let whole = vec![None; shards];
            let each: Vec<_> = (0..shards).map(|n| Some(selector(n, shards))).collect();
            rounds[0].push(round(server, &writer, updates, &[]).await);
            rounds[1].push(round(server, &writer, updates, &whole[..1]).await);
            rounds[2].push(round(server, &writer, updates, &whole).await);
            rounds[3].push(round(server, &writer, updates, &each).await);
        }
        let [idle, one, whole, sharded] = rounds;
        let cpu = |of: &[Round]| median(of.iter().map(|r| r.cpu_us)) / updates as f64;
        let idle = cpu(&idle);
        let kinds = [
            ("1 whole".to_owned(), &one),
            (format!("{shards} whole"), &whole),
            (format!("{shards} shards"), &sharded),
        ];
        for (name, rounds) in kinds {
            let events = median(rounds.iter().map(|r| r.events as f64)) / updates as f64;
            let bytes = median(rounds.iter().map(|r| r.bytes as f64)) / updates as f64;
            rows.push(vec![
                format!("{}, {name}", server.name),
                format!("{:.0}", cpu(rounds) - idle),
                format!("{events:.2}"),
                format!("{bytes:.0}"),
            ]);
        }
        times_one = (cpu(&sharded) - idle) / (cpu(&one) - idle);
    }
    println!(
        "\n{PODS} pods, {updates} updates; each row: cost per update, without that of no watch"
    );
    report::table(&["watches", "CPU µs", "events", "bytes sent"], &rows);
    let what = "all shards ÷ one whole watch of apifront";
    report::compare(what, times_one, "x", Goal::AtMost(GOAL));
    front.stop().await;
}

/// Starts a second API server on the same etcd, with shards.
async fn gated(cluster: &Cluster) -> KubeApiserver {
    let folder = cluster.folder.join("gated");
    std::fs::create_dir_all(&folder).expect("folder");
    let kubelet_client = cluster.certificates.client("kubelet-client", &[]);
    let (etcd, certificates) = (&cluster.etcd, &cluster.certificates);
    let flags = [GATE.to_owned()];
    let server = KubeApiserver::start(&folder, etcd, certificates, &kubelet_client, &flags);
    let client = Client::tls(server.address(), cluster.ca(), Some(&cluster.admin));
    eventually("a second server", Duration::from_secs(120), || async {
        let ready = client.separate();
        let ready = ready.try_send(http::Method::GET, "/readyz", &[], "").await;
        ready.is_ok_and(|answer| answer.status == 200)
    })
    .await;
    server
}

fn selector(n: usize, of: usize) -> String {
    let bound = |n: usize| ((n as u128) << 64) / of as u128;
    let (start, end) = (bound(n), bound(n + 1));
    format!("shardRange(object.metadata.uid,'0x{start:016x}','0x{end:016x}')")
}

struct Round {
    cpu_us: f64,
    events: usize,
    bytes: usize,
}

/// Opens the watches, changes pods in turn, and counts the events.
async fn round(
    server: &Server,
    writer: &Client,
    updates: usize,
    selectors: &[Option<String>],
) -> Round {
    let version = pods::version(&server.client).await;
    let paths = selectors.iter().map(|selector| {
        let path = format!("/api/v1/pods?watch=1&resourceVersion={version}");
        match selector {
            Some(selector) => format!("{path}&shardSelector={}", selector.replace('\'', "%27")),
            None => path,
        }
    });
    let open = watches::open(&server.client, paths).await;
    let before = server.cpu();
    let counting: Vec<_> = open.into_iter().map(|w| tokio::spawn(read(w))).collect();
    for n in 0..updates {
        pods::relabel(writer, n % PODS).await;
    }
    let (mut events, mut bytes) = (0, 0);
    // A round without readers takes as long as the others.
    tokio::time::sleep(QUIET).await;
    for counted in counting {
        let (e, b) = counted.await.expect("a reader");
        events += e;
        bytes += b;
    }
    Round {
        cpu_us: (server.cpu() - before).as_secs_f64() * 1e6,
        events,
        bytes,
    }
}

/// Counts events and their bytes until a pause of [`QUIET`].
async fn read(mut watch: Incoming) -> (usize, usize) {
    let (mut events, mut bytes) = (0, 0);
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(QUIET, watch.frame()).await {
        if let Ok(data) = frame.into_data() {
            bytes += data.len();
            events += data.iter().filter(|byte| **byte == b'\n').count();
        }
    }
    (events, bytes)
}
