//! Measures the memory of 5,000 idle watches, and of a cache of 10,000 pods: after
//! it is filled, and after lists, herds and watches, both at once and ten seconds
//! later. TLS, HTTP/2.
//!
//! `make bench ARGS='memory --pods 10000 --clients 50 --idle 5000 --own 1000'`

use std::time::Duration;

use crate::support::bare_h2::BareH2;
use crate::support::report::{self, Goal};
use crate::support::servers::{Server, Servers};
use crate::support::{count, lists, pods, require, usage, watches};
use futures::future::join_all;
use harness::client::Client;
use hyper::body::Incoming;

/// The most resident memory, as a multiple of the JSON of all pods, plus the
/// program's own needs.
const GOAL: f64 = 1.5;
const BASE_MB: f64 = 60.0;
/// The most resident memory ÷ the bytes that the cache counts.
const ACCOUNTED_GOAL: f64 = 1.25;
/// The most resident memory after all bursts ÷ before them. A burst's memory must be
/// given back.
const BACK_GOAL: f64 = 1.1;
const IDLE_SHARED_GOAL_KB: f64 = 10.0;
const IDLE_OWN_GOAL_KB: f64 = 30.0;
/// The time after a burst until the second measurement.
const LATER: Duration = Duration::from_secs(10);

const ALL: &str = "/api/v1/pods";
const CACHED: &str = "/api/v1/pods?resourceVersion=0";
const ACCEPTED: [&str; 4] = [
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
];
const WATCHERS: usize = 500;
const UPDATES: usize = 50;

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(memory());
}

async fn memory() {
    let (number, clients) = (count("pods", 10_000), count("clients", 50));
    idle_watches(count("idle", 5000), count("own", 1000)).await;
    let fill = async |admin: &Client| pods::create(admin, number).await;
    let servers = Servers::start(&["--request-timeout=20m".to_owned()], fill).await;
    servers.warm("pods").await;
    let bytes = lists::read(&servers.direct().client, CACHED, &[])
        .await
        .bytes;
    let megabytes = bytes as f64 / f64::from(1 << 20);
    println!("JSON list of {megabytes:.0} MB");
    let sides = [servers.direct(), servers.front()];

    let measure = async |what: &str| {
        let now = resident(&sides);
        let later = later(&sides).await;
        row(what, &sides[1], now, later, accounted(&servers).await)
    };
    let mut rows = vec![measure("filled").await];
    let filled = sides[1].resident_megabytes();
    let counted_then = accounted(&servers).await;
    for (what, burst) in [
        ("lists", Burst::Lists),
        ("watches", Burst::Watches),
        ("most recent lists", Burst::Recent),
        ("WatchLists", Burst::Informers),
    ] {
        for server in &sides {
            burst.run(&servers, server, clients).await;
        }
        rows.push(measure(what).await);
    }
    println!("\nresident MB, {number} pods, bursts of {clients} clients");
    let heads = [
        "after",
        "kube-apiserver",
        "10 s later",
        "apifront",
        "10 s later",
        "apifront's peak",
        "counted by its cache",
    ];
    report::table(&heads, &rows);
    let after = sides[1].resident_megabytes();
    let goal = Goal::AtMost((GOAL * megabytes + BASE_MB).round());
    report::compare("resident: apifront", after, " MB", goal);
    let counted = accounted(&servers).await;
    let goal = Goal::AtMost(ACCOUNTED_GOAL);
    report::compare("resident ÷ counted: apifront", after / counted, "x", goal);
    let back = Goal::AtMost(BACK_GOAL);
    // Lists leave encodings for later lists. These are counted, too.
    let more = counted - counted_then;
    let ratio = after / (filled + more);
    report::compare(
        "after all bursts ÷ filled and what is counted since",
        ratio,
        "x",
        back,
    );

    servers.apifront.stop().await;
}

/// Measures idle watches on new servers, which have no memory to reuse yet.
async fn idle_watches(shared: usize, own: usize) {
    let fill = async |admin: &Client| pods::create(admin, 1).await;
    let servers = Servers::start(&[], fill).await;
    servers.warm("pods").await;
    let certificates = &servers.cluster.certificates;
    let bare = BareH2::start(certificates);
    let alone = Server {
        name: "h2 and rustls alone",
        client: bare.client(certificates).await,
        pid: bare.process.pid(),
    };
    let sides = [servers.direct(), servers.front(), alone];
    let version = pods::version(&sides[0].client).await;
    let path = format!("{ALL}?watch=1&allowWatchBookmarks=true&resourceVersion={version}");
    let mut rows = Vec::new();
    let mut each = Vec::new();
    for server in &sides {
        let paths = (0..shared).map(|_| path.clone());
        let (_open, on_shared) = weigh(server, watches::open(&server.client, paths)).await;
        let (_also, on_own) = weigh(server, separate(server, own, &path)).await;
        each.push([on_shared, on_own]);
        rows.push(vec![
            server.name.to_owned(),
            format!("{on_shared:.1}"),
            format!("{on_own:.1}"),
        ]);
    }
    println!("\nresident KB per idle watch");
    let heads = [
        "server".to_owned(),
        format!("{shared} on shared connections"),
        format!("{own} on own"),
    ];
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    report::table(&heads, &rows);
    let [on_shared, on_own] = each[1];
    let goal = Goal::AtMost(IDLE_SHARED_GOAL_KB);
    report::compare("idle watch on shared connections", on_shared, " KB", goal);
    let goal = Goal::AtMost(IDLE_OWN_GOAL_KB);
    report::compare("idle watch on its own connection", on_own, " KB", goal);
    servers.apifront.stop().await;
}

fn resident(sides: &[Server; 2]) -> [f64; 2] {
    [0, 1].map(|n| sides[n].resident_megabytes())
}

async fn later(sides: &[Server; 2]) -> [f64; 2] {
    tokio::time::sleep(LATER).await;
    resident(sides)
}

/// Returns the MB that apifront's cache counts.
async fn accounted(servers: &Servers) -> f64 {
    let bytes = servers.apifront.metric("apifront_cache_bytes", &[]).await;
    bytes / f64::from(1 << 20)
}

fn row(what: &str, ours: &Server, now: [f64; 2], later: [f64; 2], counted: f64) -> Vec<String> {
    let peak = usage::peak_bytes(ours.pid) as f64 / f64::from(1 << 20);
    let figures = [now[0], later[0], now[1], later[1], peak, counted];
    let figures = figures.iter().map(|f| format!("{f:.0}"));
    [what.to_owned()].into_iter().chain(figures).collect()
}

#[derive(Clone, Copy)]
enum Burst {
    /// Lists in each representation, plain and with gzip.
    Lists,
    /// Watches of changing pods.
    Watches,
    /// Lists with resourceVersion unset.
    Recent,
    Informers,
}

impl Burst {
    async fn run(self, servers: &Servers, server: &Server, clients: usize) {
        let mut open = Vec::new();
        for _ in 0..clients {
            open.push(server.connection().await);
        }
        match self {
            Self::Lists => {
                let kinds = ACCEPTED.iter().flat_map(|a| [(a, "identity"), (a, "gzip")]);
                let kinds: Vec<_> = kinds.collect();
                // One list of each kind is already a lot of work for kube-apiserver.
                let lists = open.iter().zip(&kinds).map(|(client, (accept, encoding))| {
                    let headers = [("accept", **accept), ("accept-encoding", *encoding)];
                    async move { lists::read(client, CACHED, &headers).await }
                });
                join_all(lists).await;
            }
            Self::Watches => {
                let admin = servers.cluster.admin_client();
                let version = pods::version(&admin).await;
                let path = format!("{ALL}?watch=1&resourceVersion={version}");
                let paths = (0..WATCHERS).map(|_| path.clone());
                let mut open = watches::open(&server.client, paths).await;
                for update in 0..UPDATES {
                    pods::relabel(&admin, update).await;
                    for watch in &mut open {
                        watches::next_event(watch).await;
                    }
                }
            }
            Self::Recent => {
                let headers = [("accept", "application/json")];
                join_all(open.iter().map(|c| lists::read(c, ALL, &headers))).await;
            }
            Self::Informers => {
                join_all(open.iter().map(watches::inform)).await;
            }
        }
    }
}

/// Opens watches, each on its own TLS connection.
async fn separate(server: &Server, number: usize, path: &str) -> Vec<Incoming> {
    let mut open = Vec::new();
    for _ in 0..number {
        let client = server.client.separate();
        open.push(watches::one(&client, path).await);
    }
    open
}

/// Opens watches. Returns them and the KB of resident memory for each.
async fn weigh(server: &Server, open: impl Future<Output = Vec<Incoming>>) -> (Vec<Incoming>, f64) {
    let before = server.resident_megabytes();
    let open = open.await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let kilobytes = (server.resident_megabytes() - before) * 1024.0;
    let each = kilobytes / open.len() as f64;
    (open, each)
}
