//! Measures 500 informers that start at once, as when their controllers are
//! rolled out. Each opens the WatchList with which client-go fills its store,
//! and reads up to the bookmark that ends the initial events. TLS, HTTP/2,
//! JSON.
//!
//! `cargo bench --bench watch_list_herd -- --pods 1000 --informers 500`

#[path = "../tests/harness/mod.rs"]
mod harness;
mod support;

use std::time::Instant;

use futures::future::join_all;
use harness::client::Client;
use support::report::{self, Goal, median};
use support::servers::{Cost, Reads, Server, Servers};
use support::watches::{self, Informer};
use support::{count, pods, require};

/// The number of informers per client, which share its connection.
const INFORMERS_PER_CLIENT: usize = 10;
const READS_GOAL: f64 = 3.0;

fn main() {
    require(&[("taskset", "util-linux")]);
    support::run(watch_list_herd());
}

async fn watch_list_herd() {
    let (number, informers) = (count("pods", 1000), count("informers", 500));
    let fill = async |admin: &Client| pods::create(admin, number).await;
    let servers = Servers::start(&["--request-timeout=20m".to_owned()], fill).await;
    servers.warm("pods").await;

    let direct = herd(&servers, &servers.direct(), informers, number).await;
    let front = herd(&servers, &servers.front(), informers, number).await;
    println!(
        "\n{informers} informers at once over {number} pods, {:.1} MB each",
        front.bytes as f64 / 1e6 / informers as f64
    );
    let row = |name: &str, herd: &Herd, server: &Server| {
        vec![
            name.to_owned(),
            format!("{:.2}", herd.cost.wall.as_secs_f64()),
            format!("{:.2}", herd.median),
            format!("{:.2}", herd.cost.apiserver.as_secs_f64()),
            format!("{:.2}", herd.cost.apifront.as_secs_f64()),
            format!("{}", herd.reads.lists),
            format!("{}", herd.reads.watches),
            format!("{:.0}", server.resident_megabytes()),
        ]
    };
    let heads = [
        "asked",
        "all filled after s",
        "half of them",
        "CPU s kube-apiserver",
        "CPU s apifront",
        "upstream lists",
        "upstream watches",
        "resident MB",
    ];
    let rows = [
        row("kube-apiserver", &direct, &servers.direct()),
        row("apifront", &front, &servers.front()),
    ];
    report::table(&heads, &rows);
    report::compare(
        "upstream reads",
        front.reads.all(),
        "",
        Goal::AtMost(READS_GOAL),
    );
    let both = |cost: &Cost| (cost.apifront + cost.apiserver).as_secs_f64();
    println!(
        "kube-apiserver ÷ apifront: wall {:.1}x, CPU {:.1}x (both servers together)",
        direct.cost.wall.as_secs_f64() / front.cost.wall.as_secs_f64(),
        both(&direct.cost) / both(&front.cost),
    );
    servers.apifront.stop().await;
}

struct Herd {
    cost: Cost,
    reads: Reads,
    /// The number of seconds until half of the informers are filled.
    median: f64,
    /// The number of bytes that all informers received.
    bytes: usize,
}

async fn herd(servers: &Servers, server: &Server, informers: usize, number: usize) -> Herd {
    let mut connections = Vec::new();
    for _ in 0..informers.div_ceil(INFORMERS_PER_CLIENT) {
        connections.push(server.connection().await);
    }
    let before = servers.reads("pods").await;
    let began = Instant::now();
    let fill = (0..informers).map(|n| watches::inform(&connections[n / INFORMERS_PER_CLIENT]));
    // The informers' watches stay open, so that none ends before the upstream
    // watches are counted.
    let (filled, cost) = servers.measure(join_all(fill)).await;
    let reads = servers.reads("pods").await.since(before);
    assert!(filled.iter().all(|i| i.objects == number), "all pods");
    let after = |i: &Informer| (i.filled_at - began).as_secs_f64();
    Herd {
        cost,
        reads,
        median: median(filled.iter().map(after)),
        bytes: filled.iter().map(|i| i.bytes).sum(),
    }
}
