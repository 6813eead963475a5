//! Measures what it saves to answer without managedFields, by a rule of `shapes`: the
//! bytes and the CPU of lists, the heap of client-go's informer, the cost of a delivery
//! to watchers, and the memory that the form takes. Each pod has three managers. One
//! user gets whole objects, and the rule names another one. TLS, HTTP/2.
//!
//! `make bench ARGS='without_managed_fields --pods 150000 --watchers 200 --rate 500
//! --seconds 30'`

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::support::report::{self, Goal, median};
use crate::support::servers::{Server, Servers};
use crate::support::{argument, count, lists, pods, require, seconds, usage, watches};
use harness::certificates::Pair;
use harness::client::Client;
use harness::elsewhere;
use harness::informer::Informer;

const LIST: &str = "/api/v1/pods?resourceVersion=0";
const LISTS: usize = 5;
/// The most that a delivery may cost, as a multiple of that of a whole object.
const OF_WHOLE: f64 = 1.2;
const WRITERS: usize = 8;
/// The most pods of which the informer holds all. It takes 70 KB for a whole one. Of
/// more pods it holds a namespace.
const MOST_INFORMED: usize = 50_000;
const PER_HOUR: f64 = 500.0 * 3600.0;
const MEGABYTE: f64 = 1e6;

/// The encodings of lists, each plain and compressed.
const ENCODINGS: [&str; 2] = ["application/json", "application/vnd.kubernetes.protobuf"];

/// A reader, whose objects are whole or not.
struct Reader {
    name: &'static str,
    certificate: Pair,
    server: Server,
}

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(without_managed_fields());
}

async fn without_managed_fields() {
    let most = count("pods", 20_000);
    let flags = ["--request-timeout=20m".to_owned()];
    let servers = Servers::start(&flags, async |admin| {
        pods::create_managed(admin, most).await;
    })
    .await;
    let rule = json!([{ "name": "measured", "users": ["without"], "managedFields": "Drop" }]);
    servers.configure(|config| config["shapes"] = rule).await;
    servers.warm("pods").await;
    let reader = |name| {
        let certificate = servers
            .cluster
            .certificates
            .client(name, &["system:masters"]);
        Reader {
            name,
            server: Server {
                client: servers.apifront.client(Some(&certificate)),
                ..servers.front()
            },
            certificate,
        }
    };
    let readers = [reader("whole"), reader("without")];
    list_all(&servers, &readers).await;
    inform(&servers, &readers, most).await;
    watch_all(&servers, &readers, most).await;
    let bytes = servers
        .apifront
        .metric("apifront_shape_left_out_bytes_total", &[])
        .await;
    println!("left out in all: {:.0} MB", bytes / MEGABYTE);
    servers.apifront.stop().await;
}

/// Lists all pods in each form: the first list makes the form, later ones share it.
async fn list_all(servers: &Servers, readers: &[Reader; 2]) {
    let derived = async || {
        let labels = [("resource", "pods"), ("kind", "derived")];
        let bytes = servers.apifront.metric("apifront_cache_bytes", &labels);
        bytes.await / MEGABYTE
    };
    let mut rows = Vec::new();
    for accept in ENCODINGS {
        for gzip in [false, true] {
            let mut headers = vec![("accept", accept)];
            if gzip {
                headers.push(("accept-encoding", "gzip"));
            }
            for reader in readers {
                let client = reader.server.connection().await;
                let kept = derived().await;
                let mut costs = Vec::new();
                let mut bytes = 0;
                for _ in 0..=LISTS {
                    let before = reader.server.cpu();
                    bytes = lists::read(&client, LIST, &headers).await.bytes;
                    costs.push((reader.server.cpu() - before).as_secs_f64() * 1e3);
                }
                let kept = derived().await - kept;
                rows.push(vec![
                    format!(
                        "{}{}, {}",
                        accept.rsplit('.').next().unwrap_or(accept),
                        if gzip { ", gzip" } else { "" },
                        reader.name
                    ),
                    format!("{:.1}", bytes as f64 / MEGABYTE),
                    format!("{:.0}", costs[0]),
                    format!("{:.1}", median(costs[1..].iter().copied())),
                    format!("{kept:.1}"),
                    format!("{:.0}", reader.server.resident_megabytes()),
                ]);
            }
        }
    }
    println!("\nlists of all pods at resourceVersion=0");
    report::table(
        &[
            "form",
            "MB",
            "CPU ms of the first",
            "of later ones",
            "MB kept for it",
            "resident MB",
        ],
        &rows,
    );
}

/// What the informer's program says when it has synced.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Synced {
    objects: Vec<String>,
    heap_bytes: u64,
}

async fn inform(servers: &Servers, readers: &[Reader; 2], most: usize) {
    let mut rows = Vec::new();
    let mut heaps = Vec::new();
    for reader in readers {
        let before = reader.server.cpu();
        let who = (servers.cluster.ca(), &reader.certificate);
        let mut options = vec!["-patience", "20m"];
        if most > MOST_INFORMED {
            options.extend(["-namespace", pods::FIRST_NAMESPACE]);
        }
        let informer = Informer::start(&servers.apifront.url(), who, "v1/pods", &options);
        let pid = informer.pid();
        let (informer, synced) = informer.next::<Synced>().await;
        let cpu = reader.server.cpu() - before;
        heaps.push(synced.heap_bytes as f64);
        rows.push(vec![
            reader.name.to_owned(),
            synced.objects.len().to_string(),
            format!("{:.0}", synced.heap_bytes as f64 / MEGABYTE),
            format!("{:.0}", usage::peak_bytes(pid) as f64 / MEGABYTE),
            format!("{:.0}", cpu.as_secs_f64() * 1e3),
        ]);
        drop(informer);
    }
    println!("\nclient-go's informer of pods (dynamic client)");
    let heads = [
        "reader",
        "objects",
        "heap MB",
        "peak resident MB",
        "CPU ms of apifront",
    ];
    report::table(&heads, &rows);
    println!("heap without ÷ whole: {:.2}x", heaps[1] / heaps[0]);
}

/// Compares the cost of deliveries while pods change.
async fn watch_all(servers: &Servers, readers: &[Reader; 2], most: usize) {
    let (watchers, rate) = (count("watchers", 100), count("rate", 200));
    let lasts = seconds("seconds", 10);
    let admin = servers.cluster.admin_client();
    let mut rounds = [Vec::new(), Vec::new()];
    for _ in 0..argument("rounds", 3) {
        for (reader, rounds) in readers.iter().zip(&mut rounds) {
            let idle = round(reader, &admin, (0, most), rate, lasts).await;
            let busy = round(reader, &admin, (watchers, most), rate, lasts).await;
            let changes = busy.cpu_us - idle.cpu_us * busy.changes / idle.changes;
            rounds.push((
                changes / busy.deliveries,
                busy.bytes / busy.deliveries,
                busy.deliveries,
            ));
        }
    }
    let rows = readers.iter().zip(&rounds).map(|(reader, rounds)| {
        let of = |field: fn(&(f64, f64, f64)) -> f64| median(rounds.iter().map(field));
        let bytes = of(|round| round.1);
        vec![
            reader.name.to_owned(),
            format!("{:.0}", of(|round| round.2)),
            format!("{bytes:.0}"),
            format!("{:.2}", of(|round| round.0)),
            format!("{:.1}", bytes * PER_HOUR / 1e9),
        ]
    });
    println!("\n{watchers} watchers of all pods, {rate} changes/s at most for {lasts:.0?}");
    report::table(
        &[
            "reader",
            "deliveries",
            "bytes",
            "CPU µs/delivery",
            "GB of one watch in an hour at 500/s",
        ],
        &rows.collect::<Vec<_>>(),
    );
    let [whole, without] = rounds.map(|rounds| median(rounds.iter().map(|round| round.0)));
    let goal = Goal::AtMost(OF_WHOLE);
    report::compare(
        "CPU of a delivery, without ÷ whole",
        without / whole,
        "x",
        goal,
    );
}

struct Round {
    cpu_us: f64,
    changes: f64,
    deliveries: f64,
    bytes: f64,
}

/// Opens watches and changes pods for some time. Each watcher receives all changes.
async fn round(
    reader: &Reader,
    admin: &Client,
    (watchers, most): (usize, usize),
    rate: usize,
    lasts: Duration,
) -> Round {
    let version = pods::version(admin).await;
    let path = format!("/api/v1/pods?watch=1&allowWatchBookmarks=false&resourceVersion={version}");
    let open = watches::open(&reader.server.client, (0..watchers).map(|_| path.clone())).await;
    let before = reader.server.cpu();
    let changes = rate * lasts.as_secs() as usize;
    let writers = (0..WRITERS).map(|writer| {
        let client = admin.separate();
        elsewhere::spawn(async move {
            let mut tick = tokio::time::interval(Duration::from_secs(WRITERS as u64) / rate as u32);
            for n in (writer..changes).step_by(WRITERS) {
                tick.tick().await;
                pods::relabel(&client, n * 7_919 % most).await;
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let read = open.into_iter().map(|mut watch| {
        tokio::spawn(async move {
            let mut bytes = 0;
            let mut events = 0;
            while events < changes {
                let (some, more) = watches::some_events(&mut watch).await;
                bytes += some;
                events += more;
            }
            bytes
        })
    });
    let read: Vec<_> = read.collect();
    let mut bytes = 0;
    for watch in read {
        bytes += watch.await.expect("all events");
    }
    for writer in writers {
        writer.await.expect("all its changes");
    }
    Round {
        cpu_us: (reader.server.cpu() - before).as_secs_f64() * 1e6,
        changes: changes as f64,
        deliveries: (changes * watchers) as f64,
        bytes: bytes as f64,
    }
}
