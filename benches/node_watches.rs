//! Measures the cost of a change when 5,000 watchers each watch one node, as
//! kubelets do. It must not be much higher than with 50 watchers. And the cost of a list
//! of a node's pods. TLS, HTTP/2, JSON.
//!
//! `make bench ARGS='node_watches --pods 5000 --few 50 --updates 2000'`

use crate::support::report::{self, Goal, median};
use crate::support::servers::{Server, Servers};
use crate::support::{argument, count, lists, pods, require, watches};
use harness::client::Client;

/// The most CPU of an event with all watchers, relative to few watchers.
const GOAL: f64 = 2.0;
/// kube-apiserver's CPU of a node's list as a multiple of apifront's.
const LIST_GOAL: f64 = 3.0;
const LISTS: usize = 2_000;

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(node_watches());
}

async fn node_watches() {
    let (many, few) = (count("pods", 5000), count("few", 50));
    let updates = count("updates", 2000);
    let fill = async |admin: &Client| pods::create_on(admin, many, many).await;
    let servers = Servers::start(&[], fill).await;
    servers.warm("pods").await;
    let mut bench = Bench {
        writer: servers.cluster.admin_client(),
        pods: many,
        updates,
    };
    let sides = [servers.direct(), servers.front()];
    let numbers = [0, few, many];
    let mut rounds = vec![vec![Vec::new(); numbers.len()]; sides.len()];
    let _warm_up = bench.round(&sides[0], 0).await;
    for _ in 0..argument("rounds", 2) {
        for (n, watchers) in numbers.iter().enumerate() {
            for (server, rounds) in sides.iter().zip(&mut rounds) {
                rounds[n].push(bench.round(server, *watchers).await);
            }
        }
    }
    println!("\n{many} pods on as many nodes, {updates} updates, one watcher for each");
    let figures: Vec<[f64; 3]> = rounds
        .iter()
        .map(|rounds| [0, 1, 2].map(|n| median(rounds[n].iter().copied())))
        .collect();
    let rows: Vec<Vec<String>> = sides
        .iter()
        .zip(&figures)
        .map(|(server, [none, few, many])| {
            vec![
                server.name.to_owned(),
                format!("{none:.0}"),
                format!("{few:.0}"),
                format!("{many:.0}"),
                format!("{:.2}x", many / few),
                format!("{:.0}", server.resident_megabytes()),
            ]
        })
        .collect();
    let heads = [
        "CPU µs/update of the server".to_owned(),
        "no watcher".to_owned(),
        format!("{few} watchers"),
        format!("{many} watchers"),
        format!("{many} ÷ {few}"),
        "resident MB".to_owned(),
    ];
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    report::table(&heads, &rows);
    let [_, few_cpu, many_cpu] = figures[1];
    let what = format!("apifront: an event with {many} watchers ÷ with {few}");
    report::compare(&what, many_cpu / few_cpu, "x", Goal::AtMost(GOAL));
    let mut lists = [Vec::new(), Vec::new()];
    for _ in 0..argument("rounds", 2) {
        for (server, lists) in sides.iter().zip(&mut lists) {
            lists.push(list(server, many).await);
        }
    }
    let [theirs, ours] = lists.map(median);
    println!("a list of a node's pods: {theirs:.0} and {ours:.0} CPU µs");
    let what = "a list of a node's pods: times less CPU";
    report::compare(what, theirs / ours, "x", Goal::AtLeast(LIST_GOAL));
    servers.apifront.stop().await;
}

/// Returns the server's CPU time for a list of the pods of a node in µs, one list after
/// the other.
async fn list(server: &Server, nodes: usize) -> f64 {
    let client = server.connection().await;
    let before = server.cpu();
    for n in 0..LISTS {
        let node = pods::node(n * nodes / LISTS);
        let path = format!("/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%3D{node}");
        lists::read(&client, &path, &[]).await;
    }
    (server.cpu() - before).as_secs_f64() * 1e6 / LISTS as f64
}

struct Bench {
    writer: Client,
    pods: usize,
    updates: usize,
}

impl Bench {
    /// Returns the server's CPU time per update in µs. Each update changes a watched
    /// pod, and its event arrives before the next update. Without watchers this is
    /// the cost of the updates alone.
    async fn round(&mut self, server: &Server, watchers: usize) -> f64 {
        let version = pods::version(&server.client).await;
        let paths = (0..watchers).map(|n| {
            let node = pods::node(n);
            format!(
                "/api/v1/pods?watch=1&resourceVersion={version}&fieldSelector=spec.nodeName%3D{node}"
            )
        });
        let mut open = watches::open(&server.client, paths).await;
        let before = server.cpu();
        for n in 0..self.updates {
            // The changed pods are spread over all of them.
            let pod = n * self.pods / self.updates;
            if watchers == 0 {
                pods::relabel(&self.writer, pod).await;
                continue;
            }
            let pod = n * watchers / self.updates;
            pods::relabel(&self.writer, pod).await;
            watches::next_event(&mut open[pod]).await;
        }
        (server.cpu() - before).as_secs_f64() * 1e6 / self.updates as f64
    }
}
