//! Measures how soon clients find a definition. The time runs from the event that
//! says it is established to the answers that show its group: in `/apis` as kubectl
//! reads it, in the plain `/apis`, and in `/openapi/v3`. Asks directly and through
//! apifront, in turns.
//!
//! `make bench ARGS='definitions --definitions 200'`

use std::time::{Duration, Instant};

use crate::support::count;
use crate::support::report::{self, Goal, percentile};
use harness::apifront::Apifront;
use harness::client::Client;
use harness::cluster::Cluster;
use harness::media_types::{GROUP_DISCOVERY_OR_JSON, JSON};
use harness::objects::widget_definition;
use harness::watch::Watch;
use serde_json::Value;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The documents that must show the group, each with its media type.
const DOCUMENTS: [(&str, &str, &str); 3] = [
    ("/apis, aggregated", "/apis", GROUP_DISCOVERY_OR_JSON),
    ("/apis", "/apis", JSON),
    ("/openapi/v3", "/openapi/v3", JSON),
];
/// The most milliseconds that apifront may add.
const LATER_GOAL: f64 = 10.0;
const PATIENCE: Duration = Duration::from_secs(30);

pub fn main() {
    crate::support::run(definitions());
}

/// The milliseconds of each definition, for each of [`DOCUMENTS`].
type Found = [Vec<f64>; DOCUMENTS.len()];

async fn definitions() {
    let number = count("definitions", 200);
    let cluster = Cluster::start(&[]).await;
    let front = Apifront::start_directly(&cluster, |_| {}).await;
    let ways = [cluster.admin_client(), front.admin_client()];
    front.warm(&ways[1], DEFINITIONS).await;
    let mut found: [Found; 2] = Default::default();
    // The first definition of each way is not counted.
    for n in 0..number + 1 {
        for (way, client) in ways.iter().enumerate() {
            let group = format!("way-{way}-{n}.example.com");
            let later = find(client, &group).await;
            if n > 0 {
                for (all, later) in found[way].iter_mut().zip(later) {
                    all.push(later);
                }
            }
        }
    }
    println!("\nms from Established to the group, {number} definitions each way\n");
    let [direct, through] = found;
    let mut rows = Vec::new();
    for (at, (name, ..)) in DOCUMENTS.iter().enumerate() {
        let of = |found: &Found| [50.0, 99.0].map(|p| percentile(&found[at], p));
        let all = [of(&direct), of(&through)].concat();
        let cells = all.iter().map(|ms| format!("{ms:.1}"));
        rows.push(std::iter::once((*name).to_owned()).chain(cells).collect());
    }
    let heads = ["found in", "direct p50", "p99", "apifront p50", "p99"];
    report::table(&heads, &rows);
    println!();
    for (at, (name, ..)) in DOCUMENTS.iter().enumerate() {
        for p in [50.0, 99.0] {
            let later = percentile(&through[at], p) - percentile(&direct[at], p);
            let what = format!("{name}, p{p}, later than directly");
            report::compare(&what, later, " ms", Goal::AtMost(LATER_GOAL));
        }
    }
    front.stop().await;
}

/// Creates a definition, and returns for each document the milliseconds until it
/// shows the group. Deletes the definition afterwards.
async fn find(client: &Client, group: &str) -> [f64; DOCUMENTS.len()] {
    let name = format!("widgets.{group}");
    let watch = format!("{DEFINITIONS}?watch=true&fieldSelector=metadata.name%3D{name}");
    let mut watch = Watch::open(client, &watch).await;
    let definition = widget_definition(group);
    client.post(DEFINITIONS, &definition).await.expect(201);
    while !is_established(&watch.next().await.expect("an event").object) {}
    let began = Instant::now();
    let mut later = [0.0; DOCUMENTS.len()];
    for (later, (_, path, accept)) in later.iter_mut().zip(DOCUMENTS) {
        while !client.get_as(path, accept).await.text().contains(group) {
            assert!(began.elapsed() < PATIENCE, "{group} is not in {path}");
        }
        *later = began.elapsed().as_secs_f64() * 1e3;
    }
    client.delete(&format!("{DEFINITIONS}/{name}")).await;
    later
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    let is = |c: &Value| c["type"] == "Established" && c["status"] == "True";
    conditions.is_some_and(|conditions| conditions.iter().any(is))
}
