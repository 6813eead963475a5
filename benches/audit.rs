//! Measures the cost of the audit log for requests that the cache answers. Sends the
//! same GETs and LISTs, in turns, to apifronts that differ only in their audit
//! policy. TLS, HTTP/2, resourceVersion=0.
//!
//! `make bench ARGS='audit --objects 500 --requests 5000 --rounds 7'`

use std::time::{Duration, Instant};

use crate::support::report::{self, Goal, least, median};
use crate::support::{argument, configmaps, cores, count, require, usage};
use futures::StreamExt;
use harness::apifront::Apifront;
use harness::client::Client;
use harness::cluster::Cluster;
use harness::process::temporary_folder;
use http::Method;
use serde_json::{Value, json};

const GET: &str = "/api/v1/namespaces/tenant-00/configmaps/settings-000000?resourceVersion=0";
const LIST: &str = "/api/v1/configmaps?resourceVersion=0";

/// The number of concurrent requests on the one connection.
const AT_A_TIME: usize = 32;
/// A LIST costs as much as this many GETs, so all rounds last equally long.
const GETS_PER_LIST: usize = 10;

/// The most additional CPU per request, in percent.
const GOAL: f64 = 5.0;

struct Side {
    name: &'static str,
    front: Apifront,
    client: Client,
}

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(audit());
}

async fn audit() {
    let (objects, requests) = (count("objects", 500), count("requests", 5000));
    let rounds = argument("rounds", 7);
    let cluster = Cluster::start(&[]).await;
    configmaps::create(&cluster.admin_client(), objects).await;
    // The API server shares no core with the measured apifront.
    cores::pin(cluster.apiserver.pid(), cores::CLIENT);
    let sides = [
        start(&cluster, "no audit", None).await,
        start(
            &cluster,
            "no rule matches",
            Some(json!({ "rules": [{ "level": "None" }] })),
        )
        .await,
        start(
            &cluster,
            "Metadata",
            Some(json!({
                "omitStages": ["RequestReceived"], "rules": [{ "level": "Metadata" }],
            })),
        )
        .await,
        start(
            &cluster,
            "Metadata, both stages",
            Some(json!({ "rules": [{ "level": "Metadata" }] })),
        )
        .await,
    ];
    for (what, path, number) in [
        ("GET", GET, requests),
        ("LIST", LIST, requests / GETS_PER_LIST),
    ] {
        let mut figures = vec![Vec::new(); sides.len()];
        // The first round warms up.
        for n in 0..=rounds {
            for (side, figures) in sides.iter().zip(&mut figures) {
                let round = round(side, path, number).await;
                if n > 0 {
                    figures.push(round);
                }
            }
        }
        println!(
            "\n{what} of {objects} ConfigMaps of 1 KB, {number} requests in each of {rounds} rounds"
        );
        show(&sides, &figures);
    }
    for side in sides {
        side.front.stop().await;
    }
}

async fn start(cluster: &Cluster, name: &'static str, policy: Option<Value>) -> Side {
    cores::pin(std::process::id(), cores::SERVER);
    let folder = temporary_folder("audit");
    let front = Apifront::start(cluster, |config| {
        let Some(mut policy) = policy else { return };
        policy["apiVersion"] = json!("audit.k8s.io/v1");
        policy["kind"] = json!("Policy");
        let file = folder.join("policy.yaml");
        std::fs::write(&file, policy.to_string()).expect("policy");
        config["observability"]["auditPolicyFile"] = json!(file);
        config["observability"]["auditLogPath"] = json!(folder.join("audit.log"));
        // A rotated log reuses pages that the machine already has. In a virtual
        // machine, new pages made the write ten times as expensive.
        config["observability"]["auditLogMaxSize"] = json!(4);
        config["observability"]["auditLogMaxBackups"] = json!(1);
    })
    .await;
    cores::pin(std::process::id(), cores::CLIENT);
    let client = front.admin_client();
    front.warm(&client, LIST).await;
    Side {
        name,
        client,
        front,
    }
}

#[derive(Clone, Copy)]
struct Round {
    cpu: Duration,
    wall: Duration,
}

async fn round(side: &Side, path: &str, requests: usize) -> Round {
    let pid = side.front.process.pid();
    let headers = [
        ("accept", "application/json"),
        (
            "user-agent",
            "kubectl/v1.36.3 (linux/amd64) kubernetes/0000000",
        ),
    ];
    let (cpu, began) = (usage::cpu_time(pid), Instant::now());
    futures::stream::iter(0..requests)
        .for_each_concurrent(AT_A_TIME, |_| async {
            let answer = side.client.send(Method::GET, path, &headers, "").await;
            assert_eq!(answer.status, 200);
        })
        .await;
    let each = |all: Duration| all / u32::try_from(requests).expect("fewer");
    Round {
        wall: each(began.elapsed()),
        cpu: each(usage::cpu_time(pid) - cpu),
    }
}

fn show(sides: &[Side], figures: &[Vec<Round>]) {
    let us = |d: Duration| d.as_secs_f64() * 1e6;
    let cpu = |n: usize| figures[n].iter().map(|r| us(r.cpu));
    let more = |n: usize, of: fn(Vec<f64>) -> f64| {
        (of(cpu(n).collect()) / of(cpu(0).collect()) - 1.0) * 100.0
    };
    let rows: Vec<_> = sides
        .iter()
        .enumerate()
        .map(|(n, side)| {
            vec![
                side.name.to_owned(),
                format!("{:.2}", median(cpu(n))),
                format!("{:.2}", least(cpu(n))),
                format!("{:+.1} %", more(n, median)),
                format!("{:.0}", 1e6 / median(figures[n].iter().map(|r| us(r.wall)))),
            ]
        })
        .collect();
    let heads = ["audit", "CPU µs median", "least", "more", "requests/s"];
    report::table(&heads, &rows);
    for (n, side) in sides.iter().enumerate().skip(2) {
        let what = format!("{}: more CPU, least of the rounds", side.name);
        report::compare(&what, more(n, least), " %", Goal::AtMost(GOAL));
    }
}
