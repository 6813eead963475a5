//! Measures what apifront adds to a request that it only passes on: a small GET over
//! plain HTTP. The peers are nginx, haproxy and bare pingora as proxies before the
//! same upstream.
//!
//! `make bench ARGS='pass_through --rounds 5 --seconds 2'`

use std::net::SocketAddr;

use crate::support::peers::Peer;
use crate::support::report::{self, Goal, least, median};
use crate::support::wrk::{Round, Wrk};
use crate::support::{argument, bare_pingora, cores, require, seconds};
use harness::apifront::Apifront;
use harness::kubeconfig::{self, Credential};
use harness::process::temporary_folder;

const ANSWER_BYTES: usize = 1024;
/// Events are not cached by default. Every cluster sees requests for them, and
/// apifront does all the work that precedes forwarding.
const PATH: &str = "/api/v1/namespaces/default/events/web-0.17f0a3c5d2e4b681";
/// One connection shows latency, many show the capacity of a core.
const CONNECTIONS: [usize; 2] = [1, 64];

const RATE_GOAL: f64 = 0.75;
const ADDED_GOAL_US: f64 = 50.0;

struct Subject {
    name: &'static str,
    address: SocketAddr,
    pid: u32,
    rounds: Vec<Round>,
}

pub fn main() {
    bare_pingora::serve_if_asked();
    require(&[
        ("nginx", "nginx"),
        ("haproxy", "haproxy"),
        ("wrk", "wrk"),
        ("taskset", "util-linux"),
    ]);
    crate::support::run(async {
        for connections in CONNECTIONS {
            pass_through(connections).await;
        }
    });
}

async fn pass_through(connections: usize) {
    let folder = temporary_folder("pass-through");
    std::fs::write(folder.join("answer.json"), answer()).expect("answer.json");
    // With one request at a time, the upstream runs on the proxy's core. A request
    // then crosses cores equally often with and without a proxy, and the difference
    // is the proxy alone. With many requests the proxy has its own core.
    let beside = if connections == 1 {
        cores::SERVER
    } else {
        cores::CLIENT
    };
    let upstream = Peer::nginx_file(beside, &folder, None).await;
    let nginx = Peer::nginx_proxy(cores::SERVER, upstream.address).await;
    let haproxy = Peer::haproxy(cores::SERVER, upstream.address).await;
    let pingora = Peer::bare_pingora(cores::SERVER, upstream.address).await;
    let server = format!("http://{}", upstream.address);
    let config = kubeconfig::write(&folder, "upstream", &server, None, Credential::None);
    cores::pin(std::process::id(), cores::SERVER);
    let apifront = Apifront::personal(&config).await;
    cores::pin(std::process::id(), cores::CLIENT);

    let subject = |name, address, pid| Subject {
        name,
        address,
        pid,
        rounds: Vec::new(),
    };
    let mut subjects = [
        subject("direct", upstream.address, upstream.process.pid()),
        subject("nginx", nginx.address, nginx.process.pid()),
        subject("haproxy", haproxy.address, haproxy.process.pid()),
        subject("pingora", pingora.address, pingora.process.pid()),
        subject("apifront", apifront.address, apifront.process.pid()),
    ];
    let wrk = Wrk::new(&folder, seconds("seconds", 2), PATH);
    // The first round warms up and does not count.
    for round in 0..=argument("rounds", 5) {
        for subject in &mut subjects {
            let result = wrk.round(subject.address, subject.pid, connections);
            if round > 0 {
                subject.rounds.push(result);
            }
        }
    }
    print(connections, &subjects);
    apifront.stop().await;
}

fn print(connections: usize, subjects: &[Subject; 5]) {
    let [direct, nginx, _, pingora, apifront] = subjects;
    println!("\npass-through, {ANSWER_BYTES} byte answer, {connections} connection(s)");
    let heads = [
        "server",
        "requests/s",
        "p50 µs",
        "p99 µs",
        "CPU µs/request",
        "least CPU",
        "rate ÷ nginx",
        "requests/CPU ÷ nginx",
    ];
    let rows: Vec<Vec<String>> = subjects
        .iter()
        .map(|s| {
            vec![
                s.name.to_owned(),
                format!("{:.0}", s.median_of(|r| r.rate)),
                format!("{:.0}", s.median_of(|r| r.p50_us)),
                format!("{:.0}", s.median_of(|r| r.p99_us)),
                format!("{:.1}", s.median_of(|r| r.cpu_us)),
                format!("{:.1}", s.least_cpu()),
                format!(
                    "{:.2}",
                    s.median_of(|r| r.rate) / nginx.median_of(|r| r.rate)
                ),
                format!(
                    "{:.2}",
                    nginx.median_of(|r| r.cpu_us) / s.median_of(|r| r.cpu_us)
                ),
            ]
        })
        .collect();
    report::table(&heads, &rows);
    if connections == 1 {
        let added = apifront.median_of(|r| r.p50_us) - direct.median_of(|r| r.p50_us);
        let over_nginx = apifront.median_of(|r| r.p50_us) - nginx.median_of(|r| r.p50_us);
        report::compare("added at p50", added, " µs", Goal::AtMost(ADDED_GOAL_US));
        let over_pingora = apifront.median_of(|r| r.p50_us) - pingora.median_of(|r| r.p50_us);
        println!(
            "of which more than nginx: {over_nginx:.2} µs, than pingora: {over_pingora:.2} µs"
        );
    } else {
        let per_cpu = nginx.median_of(|r| r.cpu_us) / apifront.median_of(|r| r.cpu_us);
        let goal = Goal::AtLeast(RATE_GOAL);
        report::compare("requests per CPU second ÷ nginx", per_cpu, "x", goal);
        let own = apifront.median_of(|r| r.cpu_us) - pingora.median_of(|r| r.cpu_us);
        println!("of apifront's CPU more than pingora's: {own:.2} µs a request");
    }
}

impl Subject {
    fn median_of(&self, figure: impl Fn(&Round) -> f64) -> f64 {
        median(self.rounds.iter().map(figure))
    }

    fn least_cpu(&self) -> f64 {
        least(self.rounds.iter().map(|r| r.cpu_us))
    }
}

/// Returns an Event of [`ANSWER_BYTES`], padded in its message.
fn answer() -> String {
    let event = |message: &str| {
        format!(
            r#"{{"kind":"Event","apiVersion":"v1","metadata":{{"name":"web-0.17f0a3c5d2e4b681","namespace":"default","uid":"6d8f2a0e-5c3b-4f6e-9a51-0c7e2f9b1d44","resourceVersion":"48213"}},"involvedObject":{{"kind":"Pod","namespace":"default","name":"web-0"}},"reason":"Started","message":"{message}","type":"Normal"}}"#
        )
    };
    event(&"x".repeat(ANSWER_BYTES - event("").len()))
}
