//! Restarts apifront under many watchers, with and without saved stores. Measures
//! the upstream requests, the time until the cache answers, and the events that the
//! watchers lose. TLS, HTTP/2.
//!
//! `make bench ARGS='warm_restart --objects 50000 --watchers 500 --writes 1000'`

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::report::{self, Goal};
use crate::support::servers::Reads;
use crate::support::{configmaps, cores, count, require, watches};
use futures::future::join_all;
use harness::apifront::Apifront;
use harness::client::Client;
use harness::cluster::Cluster;
use harness::process;
use harness::watch::Watch;
use serde_json::{Value, json};

/// A watch that is silent for this long has brought all its events.
const QUIET: Duration = Duration::from_secs(3);
/// The benchmark reads this object until the cache answers.
const CACHED: &str = "settings-000000?resourceVersion=0";

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(restarts());
}

async fn restarts() {
    let (objects, watchers) = (count("objects", 50_000), count("watchers", 500));
    let writes = count("writes", 1000);
    let cluster = Cluster::start(&["--request-timeout=20m".to_owned()]).await;
    let began = Instant::now();
    configmaps::create(&cluster.admin_client(), objects).await;
    println!("{objects} objects created in {:.0?}", began.elapsed());
    cores::pin(cluster.apiserver.pid(), cores::SERVER);
    cores::pin(std::process::id(), cores::SERVER);
    let stores = process::temporary_folder("stores").join("stores");
    let cold = restart(&cluster, None, watchers, 0, writes).await;
    let warm = restart(&cluster, Some(&stores), watchers, 2 * writes, writes).await;

    println!("\n{objects} ConfigMaps, {watchers} watchers, {writes} writes while none ran");
    let heads = [
        "",
        "upstream lists",
        "and watches",
        "forwarded",
        "stop s",
        "ready s",
        "first hit s",
        "all watch s",
        "events",
        "lost",
        "twice",
    ];
    report::table(
        &heads,
        &[cold.row("nothing saved"), warm.row("saved stores")],
    );
    println!(
        "saved: {:.1} MB",
        bytes(&stores) as f64 / f64::from(1 << 20)
    );
    println!("{}", warm.told);
    report::compare("upstream lists", warm.reads.lists, "", Goal::AtMost(0.0));
    report::compare("events lost", warm.lost as f64, "", Goal::AtMost(0.0));
    report::compare("events twice", warm.twice as f64, "", Goal::AtMost(0.0));
    let sooner = cold.first_hit.as_secs_f64() / warm.first_hit.as_secs_f64();
    report::compare("first answer sooner", sooner, "x", Goal::AtLeast(1.0));
}

async fn start(cluster: &Cluster, stores: Option<&Path>) -> Apifront {
    Apifront::start(cluster, |config| {
        if let Some(stores) = stores {
            config["cache"] = json!({ "directory": stores });
        }
    })
    .await
}

fn bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).expect("the directory");
    entries
        .map(|e| e.expect("an entry").metadata().expect("metadata").len())
        .sum()
}

/// A client that watches one namespace, and all events that it got.
struct Watcher {
    folder: String,
    lines: Vec<String>,
    version: u64,
}

impl Watcher {
    fn new(folder: String, version: u64) -> Self {
        Self {
            folder,
            lines: Vec::new(),
            version,
        }
    }

    async fn open(&self, client: &Client) -> Watch {
        let path = format!("{}?watch=1&resourceVersion={}", self.folder, self.version);
        Watch::open(client, &path).await
    }

    async fn read(&mut self, watch: &mut Watch) {
        while let Some(Ok(event)) = watch.next_within(QUIET).await {
            self.version = event.version();
            self.lines.push(event.line);
        }
    }
}

async fn open_all(front: &Client, watchers: &[Watcher]) -> Vec<Watch> {
    let opened = watchers.chunks(watches::STREAMS).map(|some| async move {
        let connection = front.separate();
        join_all(some.iter().map(|w| w.open(&connection))).await
    });
    join_all(opened).await.into_iter().flatten().collect()
}

async fn read_all(watchers: &mut [Watcher], watches: &mut [Watch]) {
    let pairs = watchers.iter_mut().zip(watches);
    join_all(pairs.map(|(watcher, watch)| watcher.read(watch))).await;
}

struct Restart {
    reads: Reads,
    /// Clients' requests that the upstream answered.
    forwarded: f64,
    stop: Duration,
    /// The times since the start of the new process.
    ready: Duration,
    first_hit: Duration,
    all_watch: Duration,
    events: usize,
    lost: usize,
    twice: usize,
    /// The lines about saved stores in the log.
    told: String,
}

impl Restart {
    fn row(&self, name: &str) -> Vec<String> {
        let seconds = |d: Duration| format!("{:.2}", d.as_secs_f64());
        // An empty sum is -0.
        let whole = |n: f64| format!("{:.0}", n.abs());
        vec![
            name.to_owned(),
            whole(self.reads.lists),
            whole(self.reads.watches),
            whole(self.forwarded),
            seconds(self.stop),
            seconds(self.ready),
            seconds(self.first_hit),
            seconds(self.all_watch),
            self.events.to_string(),
            self.lost.to_string(),
            self.twice.to_string(),
        ]
    }
}

/// Restarts apifront under watchers. Objects change before the stop, so that the
/// watchers know different versions, and while no apifront runs.
async fn restart(
    cluster: &Cluster,
    stores: Option<&Path>,
    number: usize,
    from: usize,
    writes: usize,
) -> Restart {
    let admin = cluster.admin_client();
    let old = start(cluster, stores).await;
    let cached = format!("{}/{CACHED}", configmaps::folder(0));
    old.warm(&old.admin_client(), &cached).await;
    let listed = admin.get("/api/v1/configmaps?limit=1").await.expect(200);
    let began_at = version(&listed);
    let mut watchers: Vec<Watcher> = (0..number)
        .map(|n| Watcher::new(configmaps::folder(n), began_at))
        .collect();
    let mut watches = open_all(&old.admin_client(), &watchers).await;
    configmaps::change(&admin, from, writes).await;
    read_all(&mut watchers, &mut watches).await;
    drop(watches);
    let began = Instant::now();
    old.stop().await;
    let stop = began.elapsed();
    configmaps::change(&admin, from + writes, writes).await;

    let reads = Reads::counted_by(cluster, "configmaps").await;
    let began = Instant::now();
    let front = start(cluster, stores).await;
    let ready = began.elapsed();
    let client = front.admin_client();
    let first_hit = async {
        front.warm(&client, &cached).await;
        began.elapsed()
    };
    let reopened = async {
        let watches = open_all(&client, &watchers).await;
        (watches, began.elapsed())
    };
    let (first_hit, (mut watches, all_watch)) = tokio::join!(first_hit, reopened);
    read_all(&mut watchers, &mut watches).await;
    let reads = Reads::counted_by(cluster, "configmaps").await.since(reads);
    let forwarded = [("kind", "forward")];
    let forwarded = front.metric("apifront_upstream_requests_total", &forwarded);
    let forwarded = forwarded.await;
    let log = front.process.log();
    let told = log.lines().filter(|line| line.contains("saved store"));
    let told: Vec<&str> = told.collect();

    let right = all_events(&admin, &watchers, began_at).await;
    let (mut lost, mut twice) = (0, 0);
    for watcher in &watchers {
        let seen: BTreeSet<&String> = watcher.lines.iter().collect();
        let right = &right[&watcher.folder];
        lost += right.iter().filter(|l| !seen.contains(l)).count();
        twice += watcher.lines.len() - seen.len();
    }
    Restart {
        reads,
        forwarded,
        stop,
        ready,
        first_hit,
        all_watch,
        events: watchers.iter().map(|w| w.lines.len()).sum(),
        lost,
        twice,
        told: told.join("\n"),
    }
}

/// Asks kube-apiserver for the events of each watcher's folder.
async fn all_events(
    admin: &Client,
    watchers: &[Watcher],
    from: u64,
) -> BTreeMap<String, Vec<String>> {
    let folders: BTreeSet<&String> = watchers.iter().map(|w| &w.folder).collect();
    let mut readers: Vec<Watcher> = folders
        .into_iter()
        .map(|folder| Watcher::new(folder.clone(), from))
        .collect();
    let mut watches = open_all(admin, &readers).await;
    read_all(&mut readers, &mut watches).await;
    let events = readers.into_iter().map(|r| (r.folder, r.lines));
    events.collect()
}

fn version(list: &Value) -> u64 {
    let text = list["metadata"]["resourceVersion"].as_str();
    text.and_then(|v| v.parse().ok()).expect("a version")
}
