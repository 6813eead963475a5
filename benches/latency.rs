//! Measures how long clients wait for the event of a write, for reads of the most
//! recent state, and for writes. Each is measured directly and through apifront, in
//! quiet and beside a herd of watchers of all pods at the same server. TLS, HTTP/2,
//! JSON.
//!
//! An event's time runs from kube-apiserver's answer to the write to the event's
//! arrival. It is negative if the event comes first.
//!
//! `make bench ARGS='latency --samples 500 --watchers 1000 --rate 20'`

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::report::{self, Goal, percentile};
use crate::support::servers::{Server, Servers};
use crate::support::{count, pods, require, watches};
use harness::client::Client;
use harness::elsewhere;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The number of pods. The first one is measured, and is the only pod of its node.
const PODS: usize = 100;
const MEASURED: usize = 0;
const OF_ITS_NODE: &str = "fieldSelector=spec.nodeName%3Dnode-0000";
/// The pause between two requests, so that the measurement keeps nothing busy.
const PAUSE: Duration = Duration::from_millis(5);
/// The goals for events, in milliseconds at p50 and p99: the time that apifront adds
/// in quiet, and the whole time beside the herd.
const ADDED_IN_QUIET: [f64; 2] = [0.2, 1.5];
const BESIDE_THE_HERD: [f64; 2] = [2.0, 20.0];
/// The most events that may queue while the test waits for the measured one.
const WAITING_EVENTS: usize = 1000;
const PERCENTS: [f64; 2] = [50.0, 99.0];

pub fn main() {
    require(&[("chrt", "util-linux")]);
    crate::support::run(latency());
}

async fn latency() {
    let (samples, watchers, rate) = (
        count("samples", 500),
        count("watchers", 1000),
        count("rate", 20),
    );
    let servers = Servers::start_anywhere(async |admin| {
        pods::create_on(admin, PODS, PODS).await;
    })
    .await;
    servers.warm("pods").await;
    elsewhere::leave();
    let bench = Bench {
        writer: servers.cluster.admin_client(),
        samples,
    };
    let both = [servers.direct(), servers.front()];
    let mut quiet = Vec::new();
    for server in &both {
        quiet.push(bench.times(server).await);
    }
    let mut loaded = Vec::new();
    for server in &both {
        let herd = Herd::start(server, &bench.writer, watchers, rate).await;
        loaded.push(bench.times(server).await);
        println!("{}: {}", server.name, herd.end(watchers));
    }
    println!("\nms; the herd is {watchers} watchers of all {PODS} pods, {rate} updates a second");
    let rows = [("in quiet", &quiet), ("beside the herd", &loaded)]
        .into_iter()
        .flat_map(|(load, times)| rows(load, &times[0], &times[1]));
    let heads = ["", "p50", "p50", "added", "p99", "p99", "added"];
    let names = ["", "direct", "apifront", "", "direct", "apifront", ""];
    let names = vec![names.map(str::to_owned).to_vec()];
    report::table(&heads, &names.into_iter().chain(rows).collect::<Vec<_>>());
    for (n, percent) in PERCENTS.into_iter().enumerate() {
        let [direct, front] = [&quiet[0], &quiet[1]].map(|times| times.event(percent));
        report::compare(
            &format!("an event in quiet, added at p{percent}"),
            front - direct,
            " ms",
            Goal::AtMost(ADDED_IN_QUIET[n]),
        );
        report::compare(
            &format!("an event beside the herd, p{percent}"),
            loaded[1].event(percent),
            " ms",
            Goal::AtMost(BESIDE_THE_HERD[n]),
        );
    }
    servers.apifront.stop().await;
}

/// The milliseconds that one client waited at one server, by kind of request.
struct Times {
    kinds: Vec<(&'static str, Vec<f64>)>,
}

type Arrival = (Instant, Vec<u8>);

impl Times {
    /// Returns a percentile of the event times, which are the first kind.
    fn event(&self, percent: f64) -> f64 {
        percentile(&self.kinds[0].1, percent)
    }
}

fn rows(load: &str, direct: &Times, front: &Times) -> Vec<Vec<String>> {
    let pairs = direct.kinds.iter().zip(&front.kinds);
    pairs
        .map(|((name, direct), (_, front))| {
            let mut row = vec![format!("{name}, {load}")];
            for percent in PERCENTS {
                let (a, b) = (percentile(direct, percent), percentile(front, percent));
                row.extend([a, b, b - a].map(|ms| format!("{ms:.2}")));
            }
            row
        })
        .collect()
}

struct Bench {
    writer: Client,
    samples: usize,
}

impl Bench {
    async fn times(&self, server: &Server) -> Times {
        let client = server.connection().await;
        let list = format!("/api/v1/pods?{OF_ITS_NODE}");
        let all = "/api/v1/pods?".to_owned();
        let few = format!("{list}&");
        let one = pods::path(MEASURED);
        let at_zero = format!("{one}?resourceVersion=0");
        let kinds = vec![
            ("event of a node's pods", self.events(&client, &few).await),
            ("event of all pods", self.events(&client, &all).await),
            (
                "GET, resourceVersion unset",
                self.reads(&client, &one).await,
            ),
            (
                "GET, resourceVersion=0",
                self.reads(&client, &at_zero).await,
            ),
            (
                "LIST of a node's pods, unset",
                self.reads(&client, &list).await,
            ),
            ("PATCH", self.writes(&client).await),
        ];
        Times { kinds }
    }

    /// Writes directly, and waits at `client` for each event.
    async fn events(&self, client: &Client, list: &str) -> Vec<f64> {
        let version = pods::version(client).await;
        let path = format!("{list}watch=1&resourceVersion={version}");
        let watch = watches::one(client, &path).await;
        let (heard, mut arrivals) = mpsc::channel(WAITING_EVENTS);
        let listener = tokio::spawn(listen(watch, heard));
        let mut times = Vec::new();
        for _ in 0..self.samples {
            let marker = format!(
                r#""update":"{}""#,
                pods::relabel(&self.writer, MEASURED).await
            );
            let written = Instant::now();
            let arrived = loop {
                let (at, line) = arrivals.recv().await.expect("an event");
                if line
                    .windows(marker.len())
                    .any(|found| found == marker.as_bytes())
                {
                    break at;
                }
            };
            let late = arrived.saturating_duration_since(written).as_secs_f64();
            let early = written.saturating_duration_since(arrived).as_secs_f64();
            times.push((late - early) * 1e3);
            tokio::time::sleep(PAUSE).await;
        }
        listener.abort();
        times
    }

    async fn reads(&self, client: &Client, path: &str) -> Vec<f64> {
        self.each(async || {
            let answer = client.get(path).await;
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        })
        .await
    }

    async fn writes(&self, client: &Client) -> Vec<f64> {
        self.each(async || {
            pods::relabel(client, MEASURED).await;
        })
        .await
    }

    async fn each(&self, ask: impl AsyncFn()) -> Vec<f64> {
        let mut times = Vec::new();
        for _ in 0..self.samples {
            let began = Instant::now();
            ask().await;
            times.push(began.elapsed().as_secs_f64() * 1e3);
            tokio::time::sleep(PAUSE).await;
        }
        times
    }
}

/// Sends each line of a watch with the time of its arrival.
async fn listen(mut watch: Incoming, heard: mpsc::Sender<Arrival>) {
    let mut line = Vec::new();
    while let Some(Ok(frame)) = watch.frame().await {
        let Ok(data) = frame.into_data() else {
            continue;
        };
        for part in data.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if line.ends_with(b"\n") {
                let arrival = (Instant::now(), std::mem::take(&mut line));
                if heard.send(arrival).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Watchers of all pods, and a writer that changes every pod but the measured one.
struct Herd {
    tasks: Vec<JoinHandle<()>>,
    updates: Arc<AtomicUsize>,
    events: Arc<AtomicUsize>,
}

impl Herd {
    async fn start(server: &Server, writer: &Client, watchers: usize, rate: usize) -> Self {
        let version = pods::version(&server.client).await;
        let path =
            format!("/api/v1/pods?watch=1&allowWatchBookmarks=false&resourceVersion={version}");
        let (updates, events) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let client = server.client.separate();
        let paths = (0..watchers).map(move |_| path.clone());
        let open = elsewhere::spawn(async move { watches::open(&client, paths).await });
        let open = open.await.expect("the herd's watches");
        let mut tasks: Vec<_> = open
            .into_iter()
            .map(|watch| elsewhere::spawn(count_events(watch, events.clone())))
            .collect();
        let (writer, written) = (writer.separate(), updates.clone());
        tasks.push(elsewhere::spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_secs(1) / rate as u32);
            for n in 1.. {
                tick.tick().await;
                let pod = MEASURED + 1 + n % (PODS - 1);
                pods::relabel(&writer, pod).await;
                written.fetch_add(1, Ordering::Relaxed);
            }
        }));
        Self {
            tasks,
            updates,
            events,
        }
    }

    /// Ends the herd, and describes what it did.
    fn end(self, watchers: usize) -> String {
        let ended = self.tasks.iter().filter(|task| task.is_finished()).count();
        for task in &self.tasks {
            task.abort();
        }
        let [updates, events] =
            [self.updates, self.events].map(|count| count.load(Ordering::Relaxed));
        format!(
            "{updates} updates of the herd's pods, {events} events at its {watchers} watchers, {ended} watches ended"
        )
    }
}

async fn count_events(mut watch: Incoming, events: Arc<AtomicUsize>) {
    while let Some(Ok(frame)) = watch.frame().await {
        if let Ok(data) = frame.into_data() {
            let lines = data.iter().filter(|byte| **byte == b'\n').count();
            events.fetch_add(lines, Ordering::Relaxed);
        }
    }
}
