//! Measures the cost of flow control for cached reads: apifront's CPU with API
//! Priority and Fairness and without any limit, in turns in one run. The reads are a
//! GET of one ConfigMap, and LISTs of a namespace with few ConfigMaps and of one
//! with a hundred. TLS, HTTP/2, JSON, resourceVersion=0, a user who is no
//! administrator. There are as many seats as the requests need, so that none of them
//! queues.
//!
//! 32 requests run at a time. All of them on one connection, as from a single busy
//! client, cost the least. One on each of 32 connections is like the many clients of
//! a cluster.
//!
//! A round measures both sides, in changing order. The median of the rounds'
//! differences counts, so that other work of the machine affects both sides.
//!
//! `make bench ARGS='flow --requests 5000 --rounds 40'`

use crate::support::report::{self, Goal, median};
use crate::support::servers::Servers;
use crate::support::{configmaps, count, require};
use futures::StreamExt;
use harness::client::Client;
use harness::cluster::grant;
use harness::objects;
use serde_json::json;

const AT_ONCE: usize = 32;

/// The numbers of connections for the concurrent requests.
const CONNECTIONS: [usize; 2] = [1, AT_ONCE];

/// The number of other objects, in fifty namespaces.
const OBJECTS: usize = 5_000;

/// The most additional CPU, in percent.
const GOAL: f64 = 3.0;

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(flow());
}

async fn flow() {
    let (requests, rounds) = (count("requests", 5_000), count("rounds", 40));
    let fill = async |admin: &Client| {
        configmaps::create(admin, OBJECTS).await;
        let grants = [
            objects::role("reader", &[""], &["configmaps"], &["get", "list"]),
            objects::role_binding("reader", "reader", "Group", "readers"),
        ];
        for namespace in ["default", "tenant-00"] {
            grant(admin, namespace, &grants).await;
        }
        let map = objects::config_map("one", json!({}), json!({ "k": "v" }));
        let path = "/api/v1/namespaces/default/configmaps";
        admin.post(path, &map).await.expect(201);
    };
    let servers = Servers::start(&[], fill).await;
    servers.warm("configmaps").await;
    let reader = servers
        .cluster
        .certificates
        .client("reader", &["readers", "a"]);
    println!("\n{rounds} rounds of {requests} requests, {AT_ONCE} at a time");
    let paths = [
        "/api/v1/namespaces/default/configmaps/one?resourceVersion=0",
        "/api/v1/namespaces/default/configmaps?resourceVersion=0",
        "/api/v1/namespaces/tenant-00/configmaps?resourceVersion=0",
    ];
    for (path, connections) in paths
        .iter()
        .flat_map(|path| CONNECTIONS.map(|n| (*path, n)))
    {
        let clients: Vec<Client> = (0..connections)
            .map(|_| servers.apifront.client(Some(&reader)))
            .collect();
        let mut micros = Vec::new();
        for round in 0..rounds {
            let mut of_round = [0.0; 2];
            for fair in [round % 2 == 0, round % 2 != 0] {
                configure(&servers, fair).await;
                // These reads complete the reviews of the caller before the
                // measurement.
                read(&clients, path, AT_ONCE).await;
                let ((), cost) = servers.measure(read(&clients, path, requests)).await;
                of_round[usize::from(fair)] = cost.apifront.as_secs_f64() * 1e6 / requests as f64;
            }
            micros.push(of_round);
        }
        let [without, with] = [0, 1].map(|side| median(micros.iter().map(|of| of[side])));
        println!(
            "{path}, connections: {connections}\n  CPU per request: {without:.2} µs without, {with:.2} µs with"
        );
        let more = median(micros.iter().map(|[without, with]| with - without));
        println!("  difference: {more:.2} µs");
        let more = more / without * 100.0;
        report::compare("more CPU with flow control", more, " %", Goal::AtMost(GOAL));
    }
    servers.apifront.stop().await;
}

async fn configure(servers: &Servers, fair: bool) {
    // Without fairness, 0 means no limit.
    let seats = if fair { 6000 } else { 0 };
    servers
        .configure(|config| {
            config["serving"]["maxRequestsInflight"] = json!(seats);
            config["serving"]["maxMutatingRequestsInflight"] = json!(seats);
            config["flow"] = json!({ "enablePriorityAndFairness": fair });
        })
        .await;
}

/// Reads with all clients, which share the concurrent requests equally.
async fn read(clients: &[Client], path: &str, requests: usize) {
    let (each, at_once) = (requests / clients.len(), AT_ONCE / clients.len());
    let reads = clients.iter().map(|client| {
        futures::stream::iter(0..each).for_each_concurrent(at_once, move |_| async move {
            let answer = client.get(path).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        })
    });
    futures::future::join_all(reads).await;
}
