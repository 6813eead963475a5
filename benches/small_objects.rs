//! Measures 150,000 ConfigMaps of 1 KB: the cost of a list whose selector
//! matches none of them, and their memory. TLS, HTTP/2, JSON,
//! resourceVersion=0. Creating the objects takes minutes.
//!
//! `make bench ARGS='small_objects --objects 150000 --lists 100'`

use std::time::{Duration, Instant};

use crate::support::report::{self, Goal, percentile};
use crate::support::servers::{Server, Servers};
use crate::support::{configmaps, count, require};
use harness::client::Client;
use http::Method;

const PATH: &str = "/api/v1/configmaps?resourceVersion=0";
const NOTHING: &str = "&labelSelector=app%3Dnone";
/// The most resident memory, as a multiple of the JSON of all objects, plus the
/// program's own needs.
const MEMORY_GOAL: f64 = 1.5;
const MEMORY_BASE_MB: f64 = 60.0;

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(small_objects());
}

async fn small_objects() {
    let (objects, lists) = (count("objects", 150_000), count("lists", 100));
    let fill = async |admin: &Client| configmaps::create(admin, objects).await;
    let servers = Servers::start(&[], fill).await;
    servers.warm("configmaps").await;
    let sides = [servers.direct(), servers.front()];
    let filled = sides[1].resident_megabytes();

    let mut figures = Vec::new();
    for server in &sides {
        figures.push(empty_lists(server, lists).await);
    }
    println!("\n{lists} LISTs that match none of {objects} objects");
    let row = |server: &Server, figures: &Figures| {
        vec![
            server.name.to_owned(),
            format!("{:.2}", figures.p50_ms),
            format!("{:.2}", figures.p99_ms),
            format!("{:.2}", figures.cpu_ms),
            format!("{:.0}", server.resident_megabytes()),
        ]
    };
    let heads = ["server", "p50 ms", "p99 ms", "CPU ms/list", "resident MB"];
    let rows: Vec<_> = sides.iter().zip(&figures).map(|(s, f)| row(s, f)).collect();
    report::table(&heads, &rows);
    let ratio = figures[0].cpu_ms / figures[1].cpu_ms;
    println!("kube-apiserver ÷ apifront: CPU {ratio:.1}x");

    // This list comes last, since it leaves buffers behind.
    let list = sides[0].client.get_as(PATH, "application/json").await;
    let megabytes = list.body.len() as f64 / (1 << 20) as f64;
    println!(
        "JSON list of {megabytes:.0} MB, {} bytes per object",
        list.body.len() / objects
    );
    let goal = Goal::AtMost((MEMORY_GOAL * megabytes + MEMORY_BASE_MB).round());
    report::compare("resident: apifront, filled", filled, " MB", goal);
    servers.apifront.stop().await;
}

struct Figures {
    p50_ms: f64,
    p99_ms: f64,
    cpu_ms: f64,
}

async fn empty_lists(server: &Server, times: usize) -> Figures {
    let path = format!("{PATH}{NOTHING}");
    let headers = [("accept", "application/json")];
    let (before, mut took) = (server.cpu(), Vec::new());
    for _ in 0..times {
        let began = Instant::now();
        let list = server.client.send(Method::GET, &path, &headers, "").await;
        took.push(began.elapsed());
        assert_eq!(list.expect(200)["items"].as_array().map(Vec::len), Some(0));
    }
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let cpu = ms(server.cpu() - before) / times as f64;
    let took: Vec<f64> = took.into_iter().map(ms).collect();
    Figures {
        p50_ms: percentile(&took, 50.0),
        p99_ms: percentile(&took, 99.0),
        cpu_ms: cpu,
    }
}
