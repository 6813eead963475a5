//! What it costs to tell 1,000 watchers of a change: apifront from one
//! upstream watch, and kube-apiserver to each watcher. TLS, HTTP/2, JSON.
//!
//! `cargo bench --bench watch_fan_out -- --watchers 1000 --updates 100`

#[path = "../tests/harness/mod.rs"]
mod harness;
mod support;

use harness::apifront::Apifront;
use harness::client::Client;
use harness::cluster::Cluster;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;
use support::report::{self, Goal, median};
use support::{argument, cores, pods, require, usage};

/// Streams on one connection: fewer than either server allows.
const STREAMS: usize = 50;
/// Pods in the cluster; one of them changes.
const PODS: usize = 20;
const GOAL: f64 = 6.0;

fn main() {
    require(&[("taskset", "util-linux")]);
    support::run(watch_fan_out());
}

async fn watch_fan_out() {
    let watchers = usize::try_from(argument("watchers", 1000)).expect("fewer watchers");
    let updates = usize::try_from(argument("updates", 100)).expect("fewer updates");
    let cluster = Cluster::start(&[]).await;
    let admin = cluster.admin_client();
    pods::create(&admin, PODS).await;
    cores::pin(cluster.apiserver.pid(), cores::SERVER);
    cores::pin(std::process::id(), cores::SERVER);
    let apifront = Apifront::start(&cluster, |_| {}).await;
    cores::pin(std::process::id(), cores::CLIENT);
    let front = apifront.admin_client();
    apifront
        .warm(&front, "/api/v1/pods?resourceVersion=0")
        .await;

    let writer = Writer { admin, number: 0 };
    let mut bench = Bench { writer, updates };
    let (theirs, ours) = (cluster.apiserver.pid(), apifront.process.pid());
    let direct = cluster.admin_client();
    // What the updates cost without watchers is no cost of delivery.
    let _warm_up = bench.round(&direct, theirs, 0).await;
    let (mut a, mut b, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..argument("rounds", 2) {
        idle.push((
            bench.round(&direct, theirs, 0).await,
            bench.round(&front, ours, 0).await,
        ));
        a.push(bench.round(&direct, theirs, watchers).await);
        b.push(bench.round(&front, ours, watchers).await);
    }
    let per_delivery = |rounds: &[Round], idle: f64| {
        (median(rounds.iter().map(|r| r.cpu_us)) - idle) / (watchers * updates) as f64
    };
    let their_idle = median(idle.iter().map(|r| r.0.cpu_us));
    let our_idle = median(idle.iter().map(|r| r.1.cpu_us));
    let (x, y) = (per_delivery(&a, their_idle), per_delivery(&b, our_idle));
    println!(
        "\n{watchers} watchers of all pods, {updates} updates, events of {:.0} bytes",
        median(b.iter().map(|r| r.bytes as f64)) / (watchers * updates) as f64
    );
    let row = |name: &str, each: f64, idle: f64, pid| {
        vec![
            name.to_owned(),
            format!("{each:.2}"),
            format!("{:.2}", idle / 1e3 / updates as f64),
            format!("{}", usage::resident_bytes(pid) >> 20),
        ]
    };
    report::table(
        &[
            "server",
            "CPU µs/delivery",
            "CPU ms/update itself",
            "resident MB",
        ],
        &[
            row("kube-apiserver", x, their_idle, theirs),
            row("apifront", y, our_idle, ours),
        ],
    );
    report::compare("kube-apiserver ÷ apifront", x / y, "x", Goal::AtLeast(GOAL));
    apifront.stop().await;
}

struct Writer {
    admin: Client,
    number: usize,
}

impl Writer {
    async fn update(&mut self) {
        self.number += 1;
        let patch = json!({ "metadata": { "labels": { "update": self.number.to_string() } } });
        let path = pods::path(0);
        self.admin
            .patch(&path, "merge-patch+json", &patch)
            .await
            .expect(200);
    }
}

struct Bench {
    writer: Writer,
    updates: usize,
}

/// CPU time of the server over all updates, and what all watchers received.
struct Round {
    cpu_us: f64,
    bytes: usize,
}

impl Bench {
    /// Each update is delivered to all before the next: no server is helped
    /// by sending several events at once, none cuts off slow watchers.
    async fn round(&mut self, client: &Client, pid: u32, watchers: usize) -> Round {
        let list = client.get("/api/v1/pods?limit=1").await.expect(200);
        let version = list["metadata"]["resourceVersion"]
            .as_str()
            .expect("a version");
        let path =
            format!("/api/v1/pods?watch=1&allowWatchBookmarks=false&resourceVersion={version}");
        let mut open = Vec::new();
        let mut connection = client.separate();
        for n in 0..watchers {
            if n % STREAMS == 0 {
                connection = client.separate();
            }
            let response = connection.open(&path, &[]).await;
            assert_eq!(response.status(), 200);
            open.push(response.into_body());
        }
        let before = usage::cpu_time(pid);
        let mut bytes = 0;
        for _ in 0..self.updates {
            self.writer.update().await;
            for watch in &mut open {
                bytes += next_event(watch).await;
            }
        }
        Round {
            cpu_us: (usage::cpu_time(pid) - before).as_secs_f64() * 1e6,
            bytes,
        }
    }
}

/// Reads one event, a line, and returns its length.
async fn next_event(watch: &mut Incoming) -> usize {
    let mut bytes = 0;
    loop {
        let frame = watch
            .frame()
            .await
            .expect("an open watch")
            .expect("an open watch");
        let Some(data) = frame.data_ref() else {
            continue;
        };
        bytes += data.len();
        if data.ends_with(b"\n") {
            return bytes;
        }
    }
}
