//! Measures the CPU per answer for discovery and OpenAPI documents from
//! kube-apiserver and, in turn, from apifront before it. The floor is the cost of
//! the same bytes in rustls and a socket alone.
//!
//! `make bench ARGS='documents --requests 300 --rounds 5'`

use crate::support::floor;
use crate::support::report::{self, Goal};
use crate::support::servers::{Server, Servers};
use futures::{StreamExt, stream};
use harness::client::Client;
use harness::media_types::{GROUP_DISCOVERY, JSON};
use http::Method;

const GOAL: f64 = 5.0;
/// The number of concurrent requests on one connection.
const AT_A_TIME: usize = 16;

pub fn main() {
    crate::support::run(compare());
}

struct Asked {
    name: &'static str,
    path: String,
    accept: &'static str,
    gzip: bool,
}

async fn compare() {
    let (requests, rounds) = (
        crate::support::count("requests", 300),
        crate::support::count("rounds", 5),
    );
    let servers = Servers::start(&[], async |_: &Client| {}).await;
    let (ours, theirs) = (servers.front(), servers.direct());
    let document = document(&theirs.client).await;
    let asked = |name, path: &str, accept, gzip| Asked {
        name,
        path: path.to_owned(),
        accept,
        gzip,
    };
    let mut rows = Vec::new();
    let mut ratios = Vec::new();
    for asked in [
        asked("aggregated discovery", "/apis", GROUP_DISCOVERY, false),
        asked("aggregated discovery, gzip", "/apis", GROUP_DISCOVERY, true),
        asked("OpenAPI v3, root", "/openapi/v3", JSON, false),
        asked("OpenAPI v3, root, gzip", "/openapi/v3", JSON, true),
        asked("OpenAPI v3, apps/v1", &document, JSON, false),
        asked("OpenAPI v3, apps/v1, gzip", &document, JSON, true),
        asked("OpenAPI v2, gzip", "/openapi/v2", JSON, true),
    ] {
        let mut costs = [Vec::new(), Vec::new()];
        let mut bytes = [0, 0];
        for _ in 0..rounds {
            for (server, (costs, bytes)) in [&ours, &theirs]
                .into_iter()
                .zip(costs.iter_mut().zip(&mut bytes))
            {
                let (cost, length) = cost(server, &asked, requests).await;
                costs.push(cost);
                *bytes = length;
            }
        }
        let [ours, theirs] = costs.map(report::median);
        rows.push(vec![
            asked.name.to_owned(),
            format!("{:.0}", bytes[1] as f64 / 1e3),
            format!("{:.0}", bytes[0] as f64 / 1e3),
            format!("{theirs:.0}"),
            format!("{ours:.0}"),
            format!("{:.0}", floor(&servers, requests, bytes[0])),
        ]);
        ratios.push((asked.name, theirs / ours));
    }
    let heads = [
        "document",
        "kB, kube-apiserver",
        "kB, apifront",
        "CPU us, kube-apiserver",
        "CPU us, apifront",
        "floor",
    ];
    report::table(&heads, &rows);
    println!();
    for (name, ratio) in ratios {
        let what = format!("{name}: times less CPU");
        report::compare(&what, ratio, "x", Goal::AtLeast(GOAL));
    }
}

/// Returns the CPU time of only writing `bytes`, in microseconds.
fn floor(servers: &Servers, requests: usize, bytes: usize) -> f64 {
    let certificates = &servers.cluster.certificates;
    let rounds = requests / AT_A_TIME;
    floor::per_delivery(certificates, AT_A_TIME, AT_A_TIME, rounds, bytes)
}

/// Returns the URL of a group version's document, with its hash.
async fn document(client: &Client) -> String {
    let root = client.get("/openapi/v3").await.expect(200);
    let url = root["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str();
    url.expect("a URL").to_owned()
}

/// Returns the CPU time of an answer in microseconds, and its length on the wire.
async fn cost(server: &Server, asked: &Asked, requests: usize) -> (f64, usize) {
    let client = server.connection().await;
    let encoding = if asked.gzip { "gzip" } else { "identity" };
    let headers = [("accept", asked.accept), ("accept-encoding", encoding)];
    let ask = async || {
        let answer = client.send(Method::GET, &asked.path, &headers, "").await;
        assert_eq!(answer.status, 200, "{}", asked.name);
        answer.body.len()
    };
    // Work that is done only once happens before the measurement.
    let mut bytes = 0;
    for _ in 0..5 {
        bytes = ask().await;
    }
    let before = server.cpu();
    stream::iter(0..requests)
        .for_each_concurrent(AT_A_TIME, |_| async {
            ask().await;
        })
        .await;
    let spent = server.cpu() - before;
    (spent.as_secs_f64() * 1e6 / requests as f64, bytes)
}
