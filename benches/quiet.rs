//! Counts apifront's requests to kube-apiserver while no client asks anything: after
//! reads of ten kinds, a custom one and discovery, and with a watch open. One
//! process each for `Strict` and `Fresh`, at the same time.
//!
//! `make bench ARGS='quiet --seconds 600'`

use std::time::Duration;

use crate::support::report::{self, Goal};
use crate::support::{count, lists};
use harness::apifront::{Apifront, upstream_requests};
use harness::cluster::Cluster;
use harness::objects::widget_definition;
use harness::watch::Watch;

const MODES: [&str; 2] = ["Strict", "Fresh"];
const GROUP: &str = "quiet.example.com";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const READ: [&str; 11] = [
    "/api/v1/configmaps",
    "/api/v1/namespaces",
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/secrets",
    "/api/v1/services",
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/batch/v1/jobs",
    "/apis/quiet.example.com/v1/widgets",
];
const DOCUMENTS: [&str; 4] = ["/api", "/apis", "/openapi/v2", "/openapi/v3"];
/// apifront asks for documents more often until three minutes after a client's
/// request.
const SETTLED: Duration = Duration::from_secs(185);
const GOAL: f64 = 0.1;

pub fn main() {
    crate::support::run(quiet());
}

async fn quiet() {
    let seconds = count("seconds", 600);
    let cluster = Cluster::start(&[]).await;
    let admin = cluster.admin_client();
    admin
        .post(DEFINITIONS, &widget_definition(GROUP))
        .await
        .expect(201);
    let mut fronts = Vec::new();
    let mut watches = Vec::new();
    for mode in MODES {
        let front = Apifront::start_directly(&cluster, |config| {
            config["cache"] = serde_json::json!({ "consistency": mode });
        })
        .await;
        let client = front.admin_client();
        for path in READ {
            front.warm(&client, path).await;
        }
        for path in DOCUMENTS {
            lists::read(&client, path, &[]).await;
        }
        watches.push(Watch::open(&client, "/api/v1/pods?watch=true").await);
        fronts.push(front);
    }
    tokio::time::sleep(SETTLED).await;
    let mut before = Vec::new();
    for front in &fronts {
        before.push(upstream_requests(&front.metrics().await));
    }
    println!("\ncounting for {seconds} s");
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    let mut goals = Vec::new();
    for ((mode, front), before) in MODES.iter().zip(&fronts).zip(before) {
        let mut asked = upstream_requests(&front.metrics().await);
        for (kind, count) in &mut asked {
            *count -= before.get(kind).copied().unwrap_or_default();
        }
        println!("\n{mode}: requests to kube-apiserver in {seconds} s, by kind\n");
        let rows: Vec<_> = asked
            .iter()
            .map(|(kind, count)| vec![(*kind).to_owned(), format!("{count:.0}")])
            .collect();
        report::table(&["kind", "requests"], &rows);
        goals.push((mode, asked.values().sum::<f64>() / seconds as f64));
    }
    println!();
    for (mode, rate) in goals {
        let what = format!("{mode}, requests in a second");
        report::compare(&what, rate, "", Goal::AtMost(GOAL));
    }
}
