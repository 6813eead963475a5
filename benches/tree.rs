//! Measures apifront before apifront: kube-apiserver itself, and one, two and three
//! levels of apifront before it. Each level has the same watchers of all pods.
//! Prints the time of an event to each watcher and to all, its cost in
//! kube-apiserver and in the lowest apifront, and the number of kube-apiserver's
//! watches. TLS, HTTP/2, JSON.
//!
//! `make bench ARGS='tree --watchers 2000 --updates 100'`

use std::time::{Duration, Instant};

use crate::support::report::{self, Goal, percentile};
use crate::support::{cores, count, pods, require, usage, watches};
use harness::apifront::Apifront;
use harness::client::Client;
use harness::cluster::Cluster;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const PODS: usize = 20;
const LEVELS: usize = 3;
/// The pause between updates. In it, all watchers receive the last update.
const PAUSE: Duration = Duration::from_millis(50);
/// kube-apiserver gets one watch for a resource, whatever the number of levels.
const GOAL_WATCHES: f64 = 1.0;

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(tree());
}

async fn tree() {
    let (watchers, updates) = (count("watchers", 2000), count("updates", 100));
    let cluster = Cluster::start(&[]).await;
    let writer = cluster.admin_client();
    pods::create(&writer, PODS).await;
    cores::pin(cluster.apiserver.pid(), cores::SERVER);
    cores::pin(std::process::id(), cores::SERVER);
    // kube-apiserver watches pods itself.
    let own = open_watches(&cluster).await;
    let mut fronts: Vec<Apifront> = Vec::new();
    for _ in 0..LEVELS {
        let front = match fronts.last() {
            None => Apifront::start(&cluster, |_| {}).await,
            Some(upper) => upper.start_below(&cluster, |_| {}).await,
        };
        let client = front.admin_client();
        front.warm(&client, "/api/v1/pods?resourceVersion=0").await;
        fronts.push(front);
    }
    cores::pin(std::process::id(), cores::CLIENT);
    let mut rows = Vec::new();
    let mut most_watches: f64 = 0.0;
    for few in [true, false] {
        let watchers = if few { watchers / 20 } else { watchers };
        for level in 0..=LEVELS {
            let client = match level.checked_sub(1) {
                None => writer.separate(),
                Some(n) => fronts[n].admin_client(),
            };
            let asked = Asked {
                cluster: &cluster,
                client,
                front: level.checked_sub(1).map(|n| fronts[n].process.pid()),
            };
            let round = asked.round(&writer, watchers, updates).await;
            if level > 0 {
                most_watches = most_watches.max(round.upstream - own);
            }
            let milliseconds = |percent| percentile(&round.delays, percent) * 1e3;
            rows.push(vec![
                match level {
                    0 => "kube-apiserver".to_owned(),
                    n => format!("{n} apifront"),
                },
                watchers.to_string(),
                format!("{:.1}", milliseconds(50.0)),
                format!("{:.1}", milliseconds(99.0)),
                format!("{:.2}", round.apiserver_ms),
                format!("{:.2}", round.front_ms),
                format!("{:.0}", round.upstream - own),
            ]);
        }
    }
    println!(
        "\n{updates} updates of one of {PODS} pods; servers share one core, all watchers the other"
    );
    report::table(
        &[
            "levels",
            "watchers",
            "p50 ms",
            "p99 ms",
            "kube-apiserver CPU ms/update",
            "lowest apifront CPU ms/update",
            "watches upstream",
        ],
        &rows,
    );
    let goal = Goal::AtMost(GOAL_WATCHES);
    report::compare("watches upstream", most_watches, "", goal);
    for front in fronts.into_iter().rev() {
        front.stop().await;
    }
}

struct Asked<'a> {
    cluster: &'a Cluster,
    client: Client,
    front: Option<u32>,
}

struct Round {
    /// The seconds from the write to each watcher's event.
    delays: Vec<f64>,
    apiserver_ms: f64,
    front_ms: f64,
    /// The watches of pods that kube-apiserver has open.
    upstream: f64,
}

impl Asked<'_> {
    async fn round(&self, writer: &Client, watchers: usize, updates: usize) -> Round {
        let version = pods::version(&self.client).await;
        let path = format!("/api/v1/pods?watch=1&resourceVersion={version}");
        let open = watches::open(&self.client, (0..watchers).map(|_| path.clone())).await;
        let (heard, mut arrivals) = mpsc::channel(watchers);
        let mut listeners = JoinSet::new();
        for watch in open {
            listeners.spawn(listen(watch, heard.clone()));
        }
        let cpu = |pid: Option<u32>| pid.map_or(Duration::ZERO, usage::cpu_time);
        let servers = [Some(self.cluster.apiserver.pid()), self.front];
        let before = servers.map(cpu);
        let mut delays = Vec::new();
        for _ in 0..updates {
            let began = Instant::now();
            pods::relabel(writer, 0).await;
            for _ in 0..watchers {
                let at: Instant = arrivals.recv().await.expect("a watcher");
                delays.push(at.saturating_duration_since(began).as_secs_f64());
            }
            tokio::time::sleep(PAUSE).await;
        }
        let spent = servers.map(cpu);
        // By now the watches of the previous round have ended everywhere.
        let upstream = open_watches(self.cluster).await;
        listeners.shutdown().await;
        let each = |n: usize| (spent[n] - before[n]).as_secs_f64() * 1e3 / updates as f64;
        Round {
            delays,
            apiserver_ms: each(0),
            front_ms: each(1),
            upstream,
        }
    }
}

async fn open_watches(cluster: &Cluster) -> f64 {
    let labels = [("resource", "pods"), ("verb", "WATCH")];
    cluster
        .metric("apiserver_longrunning_requests", &labels)
        .await
}

/// Sends the time of each event's arrival.
async fn listen(mut watch: Incoming, heard: mpsc::Sender<Instant>) {
    while let Some(Ok(frame)) = watch.frame().await {
        let Ok(data) = frame.into_data() else {
            continue;
        };
        for _ in data.iter().filter(|byte| **byte == b'\n') {
            if heard.send(Instant::now()).await.is_err() {
                return;
            }
        }
    }
}
