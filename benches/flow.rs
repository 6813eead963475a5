//! Measures the cost of flow control for cached reads: apifront's CPU per GET
//! of one ConfigMap and per LIST of a namespace's ConfigMaps, with API Priority
//! and Fairness and without any limit, in turns in one run. TLS, HTTP/2, JSON,
//! resourceVersion=0, a user who is no administrator. As many seats are there as
//! requests need, since a queue is for other machines than this one.
//!
//! `cargo bench --bench flow -- --requests 20000 --rounds 5`

#[path = "../tests/harness/mod.rs"]
mod harness;
mod support;

use std::time::Duration;

use futures::StreamExt;
use harness::client::Client;
use harness::cluster::grant;
use harness::objects;
use serde_json::json;
use support::report::{self, Goal, median};
use support::servers::Servers;
use support::{configmaps, count, require};

/// The number of requests at a time.
const AT_ONCE: usize = 32;

/// The number of other objects. The names and sizes from `configmaps::create`
/// do not matter here.
const OBJECTS: usize = 100;

/// The most additional CPU, in percent.
const GOAL: f64 = 3.0;

fn main() {
    require(&[("taskset", "util-linux")]);
    support::run(flow());
}

async fn flow() {
    let (requests, rounds) = (count("requests", 20_000), count("rounds", 5));
    let fill = async |admin: &Client| {
        configmaps::create(admin, OBJECTS).await;
        let grants = [
            objects::role("reader", &[""], &["configmaps"], &["get", "list"]),
            objects::role_binding("reader", "reader", "Group", "readers"),
        ];
        grant(admin, "default", &grants).await;
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
    let client = servers.apifront.client(Some(&reader));
    println!("\n{rounds} rounds of {requests} requests, {AT_ONCE} at a time");
    for path in [
        "/api/v1/namespaces/default/configmaps/one?resourceVersion=0",
        "/api/v1/namespaces/default/configmaps?resourceVersion=0",
    ] {
        let mut sides = [Vec::new(), Vec::new()];
        for _ in 0..rounds {
            for (side, fair) in [false, true].into_iter().enumerate() {
                configure(&servers, fair).await;
                // These reads do the reviews of the caller before the
                // measurement.
                read(&client, path, AT_ONCE).await;
                let ((), cost) = servers.measure(read(&client, path, requests)).await;
                sides[side].push(cost.apifront.as_secs_f64() * 1e6 / requests as f64);
            }
        }
        let [without, with] = sides.map(median);
        println!("{path}\n  CPU per request: {without:.1} µs without, {with:.1} µs with");
        let more = (with / without - 1.0) * 100.0;
        report::compare("more CPU with flow control", more, " %", Goal::AtMost(GOAL));
    }
    servers.apifront.stop().await;
}

async fn configure(servers: &Servers, fair: bool) {
    let mut config = servers.apifront.read_config();
    // 0 is no limit without fairness.
    let seats = if fair { 6000 } else { 0 };
    config["serving"]["maxRequestsInflight"] = json!(seats);
    config["serving"]["maxMutatingRequestsInflight"] = json!(seats);
    config["flow"] = json!({ "enablePriorityAndFairness": fair });
    servers.apifront.write_config(&config);
    // The reload takes milliseconds, and nothing tells when it is done.
    tokio::time::sleep(Duration::from_secs(2)).await;
}

async fn read(client: &Client, path: &str, requests: usize) {
    futures::stream::iter(0..requests)
        .for_each_concurrent(AT_ONCE, |_| async move {
            let answer = client.get(path).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
        })
        .await;
}
