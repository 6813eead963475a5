//! Measures 500 informers that start at once, as in a rollout of their controllers.
//! Each opens the WatchList with which client-go fills its store, and reads up to
//! the bookmark that ends the initial events. TLS, HTTP/2, JSON.
//!
//! `make bench ARGS='watch_list_herd --pods 1000 --informers 500'`

use std::time::Instant;

use crate::support::herd::{self, Herd};
use crate::support::report::median;
use crate::support::servers::{Server, Servers};
use crate::support::watches::{self, Informer};
use crate::support::{count, pods, require};
use futures::future::join_all;
use harness::client::Client;

/// The number of informers on each connection.
const INFORMERS_PER_CLIENT: usize = 10;
/// The most upstream reads for all informers.
const READS_GOAL: f64 = 3.0;

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(watch_list_herd());
}

async fn watch_list_herd() {
    let (number, informers) = (count("pods", 1000), count("informers", 500));
    let fill = async |admin: &Client| pods::create(admin, number).await;
    let servers = Servers::start(&["--request-timeout=20m".to_owned()], fill).await;
    servers.warm("pods").await;

    let direct = measure(&servers, &servers.direct(), informers, number).await;
    let front = measure(&servers, &servers.front(), informers, number).await;
    println!(
        "\n{informers} informers at once over {number} pods, {:.1} MB each",
        front.bytes as f64 / 1e6
    );
    herd::report(&servers, &direct, &front, READS_GOAL);
    servers.apifront.stop().await;
}

async fn measure(servers: &Servers, server: &Server, informers: usize, number: usize) -> Herd {
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
        median: Some(median(filled.iter().map(after))),
        bytes: filled.iter().map(|i| i.bytes).sum::<usize>() / informers,
    }
}
