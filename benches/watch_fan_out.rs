//! Measures the cost of sending a change to 1,000 watchers: for apifront with one
//! upstream watch, and for kube-apiserver with one watch per watcher. First for
//! watchers of whole objects, then of metadata, of objects without managedFields and of
//! Tables. TLS, HTTP/2, JSON; whole objects also over HTTP/1.1, where each watch has its
//! own connection. The floor is the cost of the same bytes in rustls and the kernel
//! alone.
//!
//! `make bench ARGS='watch_fan_out --watchers 1000 --updates 300'`
//! `--shapes 1` ends after the first shape.

use std::time::{Duration, Instant};

use crate::support::report::{self, Goal, median};
use crate::support::servers::{Server, Servers};
use crate::support::{argument, count, floor, pods, require, watches};
use harness::client::{Client, Protocol};
use hyper::body::Incoming;

/// The number of pods in the cluster. One of them changes.
const PODS: usize = 20;
const SHAPES: [Shape; 6] = [
    Shape {
        name: "whole",
        accept: "application/json",
        protocol: Protocol::Http2,
        paced: true,
        // kube-apiserver's CPU as a multiple of apifront's.
        goal: Some(6.0),
    },
    Shape {
        name: "whole, as fast as it goes",
        accept: "application/json",
        protocol: Protocol::Http2,
        paced: false,
        goal: Some(8.0),
    },
    Shape {
        name: "PartialObjectMetadata",
        accept: "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        protocol: Protocol::Http2,
        paced: true,
        goal: Some(6.0),
    },
    // kube-apiserver sends whole objects.
    Shape {
        name: "without managedFields",
        accept: "application/json;drop=metadata.managedFields",
        protocol: Protocol::Http2,
        paced: true,
        goal: None,
    },
    Shape {
        name: "Table",
        accept: "application/json;as=Table;v=v1;g=meta.k8s.io",
        protocol: Protocol::Http2,
        paced: true,
        goal: None,
    },
    Shape {
        name: "whole, HTTP/1.1",
        accept: "application/json",
        protocol: Protocol::Http1,
        paced: true,
        goal: None,
    },
];
/// The most that a delivery may cost, as a multiple of the floor.
const ABOVE_FLOOR: f64 = 1.5;
/// The length of the HTTP/2 frame header of a delivery.
const FRAME_HEADER: usize = 9;

#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    accept: &'static str,
    protocol: Protocol,
    /// Whether an update waits until all watchers have the one before.
    paced: bool,
    goal: Option<f64>,
}

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(watch_fan_out());
}

async fn watch_fan_out() {
    let watchers = count("watchers", 1000);
    let updates = count("updates", 300);
    let servers = Servers::start(&[], async |admin| pods::create(admin, PODS).await).await;
    servers.warm("pods").await;
    let mut bench = Bench {
        writer: servers.cluster.admin_client(),
        updates,
    };
    for shape in SHAPES.into_iter().take(count("shapes", 6)) {
        bench.shape(&servers, shape, watchers).await;
    }
    servers.apifront.stop().await;
}

struct Bench {
    writer: Client,
    updates: usize,
}

/// The server's CPU time for all updates, and the bytes that all watchers received.
struct Round {
    cpu_us: f64,
    bytes: usize,
    wall: Duration,
}

impl Bench {
    async fn shape(&mut self, servers: &Servers, shape: Shape, watchers: usize) {
        let updates = self.updates;
        let over = |server: Server| Server {
            client: server
                .client
                .over(shape.protocol)
                .with_header("accept", shape.accept),
            ..server
        };
        let (direct, front) = (over(servers.direct()), over(servers.front()));
        // The cost of the updates without watchers is subtracted.
        let _warm_up = self.round(&direct, 0, shape.paced).await;
        let (mut a, mut b, mut idle) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..argument("rounds", 2) {
            idle.push((
                self.round(&direct, 0, shape.paced).await,
                self.round(&front, 0, shape.paced).await,
            ));
            a.push(self.round(&direct, watchers, shape.paced).await);
            b.push(self.round(&front, watchers, shape.paced).await);
        }
        let deliveries = (watchers * updates) as f64;
        let per_delivery = |rounds: &[Round], idle: f64| {
            (median(rounds.iter().map(|r| r.cpu_us)) - idle) / deliveries
        };
        let their_idle = median(idle.iter().map(|r| r.0.cpu_us));
        let our_idle = median(idle.iter().map(|r| r.1.cpu_us));
        let (x, y) = (per_delivery(&a, their_idle), per_delivery(&b, our_idle));
        let size = median(b.iter().map(|r| r.bytes as f64)) / deliveries;
        let certificates = &servers.cluster.certificates;
        let framed = size as usize + FRAME_HEADER;
        let streams = match shape.protocol {
            Protocol::Http1 => 1,
            Protocol::Http2 => watches::STREAMS,
        };
        let floor = floor::per_delivery(certificates, watchers, streams, updates, framed);
        println!(
            "\n{watchers} watchers of all pods ({}), {updates} updates, events of {size:.0} bytes",
            shape.name
        );
        let rate =
            |rounds: &[Round]| deliveries / median(rounds.iter().map(|r| r.wall.as_secs_f64()));
        let row = |server: &Server, rounds: &[Round], each: f64, idle: f64| {
            vec![
                server.name.to_owned(),
                format!("{:.0}", rate(rounds)),
                format!("{each:.2}"),
                format!("{:.2}", idle / 1e3 / updates as f64),
                format!("{:.0}", server.resident_megabytes()),
            ]
        };
        report::table(
            &[
                "server",
                "deliveries/s",
                "CPU µs/delivery",
                "CPU ms/update itself",
                "resident MB",
            ],
            &[
                row(&direct, &a, x, their_idle),
                row(&front, &b, y, our_idle),
                vec!["floor".to_owned(), String::new(), format!("{floor:.2}")],
            ],
        );
        if let Some(goal) = shape.goal {
            let goal = Goal::AtLeast(goal);
            report::compare("kube-apiserver ÷ apifront", x / y, "x", goal);
            let goal = Goal::AtMost(ABOVE_FLOOR);
            report::compare("apifront ÷ floor", y / floor, "x", goal);
        } else {
            println!(
                "kube-apiserver ÷ apifront: {:.2}x; apifront ÷ floor: {:.2}x",
                x / y,
                y / floor
            );
        }
    }

    /// Runs one round. In a paced round, all watchers receive an update before the
    /// next one. No server then profits from sending several events at once or from
    /// ending slow watches.
    async fn round(&mut self, server: &Server, watchers: usize, paced: bool) -> Round {
        let version = pods::version(&self.writer).await;
        let path =
            format!("/api/v1/pods?watch=1&allowWatchBookmarks=false&resourceVersion={version}");
        let mut open = watches::open(&server.client, (0..watchers).map(|_| path.clone())).await;
        let (before, began) = (server.cpu(), Instant::now());
        let mut bytes = 0;
        if paced {
            for _ in 0..self.updates {
                pods::relabel(&self.writer, 0).await;
                bytes += next_events(&mut open).await;
            }
        } else {
            let write = async {
                for _ in 0..self.updates {
                    pods::relabel(&self.writer, 0).await;
                }
            };
            let read = async {
                for _ in 0..self.updates {
                    bytes += next_events(&mut open).await;
                }
            };
            tokio::join!(write, read);
        }
        Round {
            cpu_us: (server.cpu() - before).as_secs_f64() * 1e6,
            bytes,
            wall: began.elapsed(),
        }
    }
}

/// Reads one event of each watch, and returns the total length.
async fn next_events(open: &mut [Incoming]) -> usize {
    let mut bytes = 0;
    for watch in open {
        bytes += watches::next_event(watch).await;
    }
    bytes
}
