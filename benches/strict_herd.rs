//! Measures 200 clients that list all pods at once and want the most recent state.
//! kube-apiserver makes 200 lists; apifront makes a few upstream reads and answers
//! all clients. TLS, HTTP/2, JSON, each client on its own connection.
//!
//! `make bench ARGS='strict_herd --pods 10000 --clients 200'`

use crate::support::herd::{self, Herd};
use crate::support::servers::{Server, Servers};
use crate::support::{count, lists, pods, require};
use futures::future::join_all;
use harness::client::Client;

const PATH: &str = "/api/v1/pods";
/// The most upstream reads for all clients.
const READS_GOAL: f64 = 3.0;
/// On one core, 200 lists take kube-apiserver longer than its default limit of
/// a minute.
const PATIENCE: &str = "--request-timeout=20m";

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(strict_herd());
}

async fn strict_herd() {
    let (number, clients) = (count("pods", 10_000), count("clients", 200));
    let fill = async |admin: &Client| pods::create(admin, number).await;
    let servers = Servers::start(&[PATIENCE.to_owned()], fill).await;
    servers.warm("pods").await;

    let direct = measure(&servers, &servers.direct(), clients).await;
    let front = measure(&servers, &servers.front(), clients).await;
    assert_eq!(direct.bytes, front.bytes, "lists of another length");
    println!(
        "\n{clients} LISTs at once of {number} pods, {:.1} MB each, resourceVersion unset",
        front.bytes as f64 / 1e6
    );
    herd::report(&servers, &direct, &front, READS_GOAL);
    servers.apifront.stop().await;
}

/// Opens all connections first, and then lists on all of them at once.
async fn measure(servers: &Servers, server: &Server, clients: usize) -> Herd {
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(server.connection().await);
    }
    // This write is acknowledged before any client asks, so each must see it.
    pods::relabel(&servers.cluster.admin_client(), 0).await;
    let pod = servers.cluster.admin_client().get(&pods::path(0)).await;
    let written = pod.expect(200)["metadata"]["resourceVersion"].clone();
    let written: u64 = written
        .as_str()
        .and_then(|v| v.parse().ok())
        .expect("a version");

    let before = servers.reads("pods").await;
    let headers = [("accept", "application/json")];
    let asked = connections.iter().map(|c| lists::read(c, PATH, &headers));
    let (lists, cost) = servers.measure(join_all(asked)).await;
    let reads = servers.reads("pods").await.since(before);
    let stale = lists.iter().filter(|l| l.version() < written).count();
    assert_eq!(
        stale, 0,
        "{} gave lists older than their requests",
        server.name
    );
    let bytes = lists.iter().map(|l| l.bytes).max().expect("a list");
    assert!(
        lists.iter().all(|l| l.bytes == bytes),
        "{} cut lists short",
        server.name
    );
    Herd {
        cost,
        reads,
        median: None,
        bytes,
    }
}
