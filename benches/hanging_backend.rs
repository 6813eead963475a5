//! Measures discovery beside hanging backends and beside healthy ones: its duration,
//! and whether other requests fail. Compares kube-apiserver's aggregator with
//! apifront, over TLS and HTTP/2.
//!
//! `make bench ARGS='hanging_backend --requests 400 --rounds 5'`

use std::time::{Duration, Instant};

use crate::support::count;
use crate::support::report::{self, Goal, least, percentile};
use harness::backend::{Backend, Mood};
use harness::client::Client;
use harness::media_types::GROUP_DISCOVERY_OR_JSON;
use harness::twins::{Parts, Registration, Twins};
use http::Method;

/// The discovery requests: aggregated documents of all groups, a plain one, and
/// documents of single group versions.
const DISCOVERY: [(&str, &str); 5] = [
    ("/apis", GROUP_DISCOVERY_OR_JSON),
    ("/api", GROUP_DISCOVERY_OR_JSON),
    ("/apis", "application/json"),
    ("/apis/apps/v1", "application/json"),
    ("/apis/calm.example.com/v1", "application/json"),
];
/// The paths of other requests at the same time.
const OTHERS: [&str; 3] = [
    "/api/v1/namespaces",
    "/apis/apps/v1/deployments",
    "/apis/calm.example.com/v1/things/status/200",
];
const P99_GOAL: f64 = 2.0;

pub fn main() {
    crate::support::run(hanging_backend());
}

struct World {
    name: &'static str,
    twins: Twins,
    _backends: Vec<Backend>,
}

impl World {
    async fn start(name: &'static str, moods: [(&str, Mood); 3]) -> Self {
        let mut backends = Vec::new();
        let twins = Twins::start(async |parts: &Parts| {
            let mut all = Vec::new();
            for (name, mood) in moods {
                let group = format!("{name}.example.com");
                let backend = parts.backend(&group, mood);
                let port = backend.port();
                all.push(Registration::new(&group, "v1", name, port).trust(parts.ca()));
                backends.push(backend);
            }
            all
        })
        .await;
        twins.settled("v1.calm.example.com", true).await;
        Self {
            name,
            twins,
            _backends: backends,
        }
    }
}

#[derive(Default)]
struct Figures {
    p50_ms: Vec<f64>,
    p99_ms: Vec<f64>,
    requests: usize,
    errors: usize,
}

async fn hanging_backend() {
    let (requests, rounds) = (count("requests", 400), count("rounds", 5));
    let healthy = [
        ("calm", Mood::Fine),
        ("first", Mood::Fine),
        ("second", Mood::Fine),
    ];
    let hanging = [
        ("calm", Mood::Fine),
        ("first", Mood::Mute),
        ("second", Mood::Hanging),
    ];
    let worlds = [
        World::start("all healthy", healthy).await,
        World::start("two of three hang", hanging).await,
    ];
    // The sides take turns, so that other work of the machine affects all of them.
    let mut sides: Vec<(&str, &str, Client, Figures)> = Vec::new();
    for world in &worlds {
        let direct = world.twins.direct_client();
        let front = world.twins.front_client();
        sides.push(("kube-apiserver", world.name, direct, Figures::default()));
        sides.push(("apifront", world.name, front, Figures::default()));
    }
    for _ in 0..rounds {
        for (_, _, client, figures) in &mut sides {
            round(client, requests, figures).await;
        }
    }
    println!("\n{rounds} rounds of {requests} discovery requests, and as many by others");
    let rows: Vec<Vec<String>> = sides
        .iter()
        .map(|(server, world, _, figures)| {
            vec![
                (*server).to_owned(),
                (*world).to_owned(),
                format!("{:.2}", least(figures.p50_ms.iter().copied())),
                format!("{:.2}", least(figures.p99_ms.iter().copied())),
                format!("{} of {}", figures.errors, figures.requests),
            ]
        })
        .collect();
    let heads = ["server", "backends", "p50 ms", "p99 ms", "errors of others"];
    report::table(&heads, &rows);
    for server in ["kube-apiserver", "apifront"] {
        let p99: Vec<f64> = sides
            .iter()
            .filter(|(name, ..)| *name == server)
            .map(|(.., figures)| least(figures.p99_ms.iter().copied()))
            .collect();
        let what = format!("{server}: p99 beside hanging backends ÷ p99 of all healthy");
        report::compare(&what, p99[1] / p99[0], "x", Goal::AtMost(P99_GOAL));
    }
    let errors: usize = sides.iter().map(|(.., figures)| figures.errors).sum();
    report::compare("errors of others", errors as f64, "", Goal::AtMost(0.0));
}

async fn round(client: &Client, requests: usize, figures: &mut Figures) {
    let mut took = Vec::new();
    for n in 0..requests {
        let (path, accept) = DISCOVERY[n % DISCOVERY.len()];
        let began = Instant::now();
        let answer = client.get_as(path, accept).await;
        took.push(milliseconds(began.elapsed()));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let other = OTHERS[n % OTHERS.len()];
        let answer = client.try_send(Method::GET, other, &[], "").await;
        figures.requests += 1;
        figures.errors += usize::from(!answer.is_ok_and(|a| a.status == 200));
    }
    figures.p50_ms.push(percentile(&took, 50.0));
    figures.p99_ms.push(percentile(&took, 99.0));
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
