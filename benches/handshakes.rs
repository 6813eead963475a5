//! One address that connects again and again: what others wait meanwhile who are
//! connected, or who connect from another address, beside kube-apiserver. TLS, HTTP/2,
//! client certificates.
//!
//! `make bench ARGS='handshakes --flood 256 --seconds 10'`

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use http::Method;
use tokio::task::JoinHandle;

use crate::support::report::{self, Goal, percentile};
use crate::support::servers::{Server, Servers};
use crate::support::{count, pods, require, seconds};
use harness::client::Client;
use harness::elsewhere;

const PATH: &str = "/api/v1/namespaces/default/services/kubernetes?resourceVersion=0";
const FLOODS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const OTHER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));
/// Both others read so often.
const EVERY: Duration = Duration::from_millis(20);
const SETTLES: Duration = Duration::from_secs(1);
/// The most that others wait at p99, relative to their wait at kube-apiserver.
const OF_KUBE_APISERVER: f64 = 1.0;

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(handshakes());
}

async fn handshakes() {
    let (most, lasts) = (count("flood", 256), seconds("seconds", 10));
    let servers = Servers::start(&[], async |admin| pods::create(admin, 1).await).await;
    let unlimited = |config: &mut serde_json::Value| {
        config["serving"]["maxConnectionsPerClient"] = serde_json::json!(0);
    };
    servers.configure(unlimited).await;
    servers.apifront.warm(&servers.front().client, PATH).await;
    let mut rows = Vec::new();
    let mut waited = [Vec::new(), Vec::new()];
    for flood in [0, most] {
        for (server, waited) in [servers.direct(), servers.front()].iter().zip(&mut waited) {
            let seen = round(server, flood, lasts).await;
            let at = |times: &[f64], percent| format!("{:.1}", percentile(times, percent));
            rows.push(vec![
                format!("{}, {flood} at a time", server.name),
                format!("{:.0}", seen.flood as f64 / lasts.as_secs_f64()),
                at(&seen.connected, 50.0),
                at(&seen.connected, 99.0),
                at(&seen.connecting, 50.0),
                at(&seen.connecting, 99.0),
                format!("{:.1}", seen.cpu.as_secs_f64()),
            ]);
            waited.push([&seen.connected, &seen.connecting].map(|of| percentile(of, 99.0)));
        }
    }
    let heads = [
        "server",
        "connections/s of the flood",
        "connected, p50 ms",
        "p99",
        "connecting, p50 ms",
        "p99",
        "CPU s",
    ];
    println!("\none address connects again and again, for {lasts:?}");
    report::table(&heads, &rows);
    let [theirs, ours] = waited.map(|rounds| rounds[1]);
    for (n, who) in ["connected", "connecting"].into_iter().enumerate() {
        report::compare(
            &format!("beside the flood, who is {who}, p99"),
            ours[n] / theirs[n],
            "x kube-apiserver's",
            Goal::AtMost(OF_KUBE_APISERVER),
        );
    }
    servers.apifront.stop().await;
}

/// The milliseconds of others' reads, and the number of the flood's.
struct Seen {
    connected: Vec<f64>,
    connecting: Vec<f64>,
    flood: usize,
    cpu: Duration,
}

async fn round(server: &Server, flood: usize, lasts: Duration) -> Seen {
    let ends = Instant::now() + SETTLES + lasts;
    let flooding: Vec<JoinHandle<usize>> = (0..flood)
        .map(|_| {
            let client = server.client.clone().connecting_from(FLOODS);
            elsewhere::spawn(async move {
                let mut number = 0;
                while Instant::now() < ends {
                    if read(&client.separate()).await.is_some() {
                        number += 1;
                    }
                }
                number
            })
        })
        .collect();
    tokio::time::sleep(SETTLES).await;
    let before = server.cpu();
    let connected = server.connection().await;
    let other = server.client.clone().connecting_from(OTHER);
    let (connected, connecting) = tokio::join!(
        reads(ends, || connected.clone()),
        reads(ends, || other.separate()),
    );
    let cpu = server.cpu() - before;
    let mut number = 0;
    for task in flooding {
        number += task.await.expect("it ends");
    }
    Seen {
        connected,
        connecting,
        flood: number,
        cpu,
    }
}

async fn reads(ends: Instant, client: impl Fn() -> Client) -> Vec<f64> {
    let mut times = Vec::new();
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while Instant::now() < ends {
        tick.tick().await;
        times.extend(read(&client()).await);
    }
    times
}

/// Returns the milliseconds until the answer.
async fn read(client: &Client) -> Option<f64> {
    let began = Instant::now();
    let answer = client.try_send(Method::GET, PATH, &[], "").await;
    let took = began.elapsed().as_secs_f64() * 1e3;
    answer
        .is_ok_and(|answer| answer.status == 200)
        .then_some(took)
}
