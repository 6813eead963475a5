//! Measures queries of all pods: their time, first and again, and their CPU, beside what
//! clients do without queries: a list of everything, which kubectl sorts. And what a
//! hostile expression of one user does to the reads of another. TLS, HTTP/2. With
//! `--small 1` the pods are those of `scale`, and other clients are measured, too.
//!
//! `make bench ARGS='queries --pods 150000 --times 30'`

mod beside;
mod hostile;
mod windows;

use std::time::Instant;

use serde_json::{Value, json};

use crate::scale::pods as small;
use crate::support::report::{self, Goal, median, percentile};
use crate::support::servers::{Server, Servers};
use crate::support::{argument, count, pods, require, seconds};

const QUERIES: &str = "/apis/query.apifront.dev/v1alpha1/queries";

/// The most milliseconds of the first answer, and of later ones.
const FIRST_GOAL: f64 = 300.0;
const AGAIN_GOAL: f64 = 10.0;

pub fn main() {
    require(&[("taskset", "util-linux")]);
    if are_small() {
        require(&[("python3", "python3")]);
    }
    crate::support::run(queries());
}

fn are_small() -> bool {
    argument("small", 0) == 1
}

async fn queries() {
    let most = count("pods", 10_000);
    let are_small = are_small();
    let servers =
        Servers::start(
            &["--request-timeout=20m".to_owned()],
            async |admin| match are_small {
                true => small::create(admin, 0..most, pods::NODES).await,
                false => pods::create(admin, most).await,
            },
        )
        .await;
    servers
        .configure(|config| config["queries"] = json!({ "enabled": true }))
        .await;
    servers.warm("pods").await;
    servers.rest().await;
    let front = servers.front();
    ask_all(&front, most, count("times", 20)).await;
    beside::lists(&servers).await;
    if are_small {
        beside::clients(&servers, most).await;
    }
    hostile::disturb(&servers, seconds("seconds", 10)).await;
    let path = match are_small {
        true => small::path,
        false => pods::path,
    };
    let changing = windows::Changing { pods: most, path };
    let (windows, lasting) = (count("windows", 1_000), seconds("seconds", 10));
    changing.follow(&servers, windows, lasting).await;
    servers.apifront.stop().await;
}

fn query(more: Value) -> Value {
    let mut spec = json!({
        "resource": { "version": "v1", "resource": "pods" },
        "limit": 50,
        // Any state will do, so that no question to upstream is measured.
        "resourceVersion": "0",
    });
    spec.as_object_mut()
        .expect("an object")
        .extend(more.as_object().expect("an object").clone());
    json!({ "apiVersion": "query.apifront.dev/v1alpha1", "kind": "Query", "spec": spec })
}

async fn ask_all(front: &Server, most: usize, times: usize) {
    let node = json!([{ "name": "node", "expression": "object.spec.nodeName" }]);
    let client = front.connection().await;
    let mut rows = Vec::new();
    let (mut first_most, mut again_most) = (0.0, 0.0);
    for (name, more) in [
        ("a page by name", json!({ "columns": node })),
        (
            "ordered by node",
            json!({ "columns": node, "orderBy": [{ "column": "node" }] }),
        ),
        (
            "ordered by age, counted by node",
            json!({
                "orderBy": [{ "expression": "object.metadata.creationTimestamp", "descending": true }],
                "countBy": ["object.spec.nodeName"],
            }),
        ),
        (
            "the last page of an order",
            json!({ "orderBy": [{ "expression": "object.metadata.uid" }], "offset": most.saturating_sub(100) }),
        ),
        (
            "where a container restarted",
            json!({
                "where": "object.status.containerStatuses.exists(c, c.restartCount > 5)",
                "orderBy": [{ "expression": "object.metadata.name" }],
            }),
        ),
        (
            "labels",
            json!({ "labelSelector": "app=app-1", "orderBy": [{ "expression": "object.spec.nodeName" }] }),
        ),
    ] {
        let body = query(more);
        let mut waits = Vec::new();
        let mut bytes = 0;
        let cpu = front.cpu();
        for _ in 0..=times {
            let began = Instant::now();
            let answer = client.post(QUERIES, &body).await;
            waits.push(began.elapsed().as_secs_f64() * 1e3);
            assert_eq!(answer.status, 201, "{}", answer.text());
            bytes = answer.body.len();
        }
        let cpu = (front.cpu() - cpu).as_secs_f64() * 1e3 / waits.len() as f64;
        let again = &waits[1..];
        first_most = f64::max(first_most, waits[0]);
        again_most = f64::max(again_most, percentile(again, 99.0));
        rows.push(vec![
            name.to_owned(),
            format!("{:.1}", waits[0]),
            format!("{:.1}", median(again.iter().copied())),
            format!("{:.1}", percentile(again, 99.0)),
            format!("{cpu:.1}"),
            format!("{:.1}", bytes as f64 / 1e3),
        ]);
    }
    println!("\nqueries of all pods, milliseconds");
    let heads = ["query", "first", "p50", "p99", "CPU", "KB"];
    report::table(&heads, &rows);
    report::compare("first answer", first_most, "ms", Goal::AtMost(FIRST_GOAL));
    report::compare("p99 again", again_most, "ms", Goal::AtMost(AGAIN_GOAL));
    println!("resident: {:.0} MB", front.resident_megabytes());
}
