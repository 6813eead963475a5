//! Counts the cache lines that pass between cores for atomic instructions for a GET, a LIST and a delivery,
//! names the code that they pass for, and estimates from that what more cores than two
//! would do.
//!
//! apifront has two workers, and stops at each atomic instruction. Clients ask one after
//! the other, each on its own connection as its own user for its own object, so what
//! passes is what requests share though they have nothing in common.
//!
//! `make bench ARGS='contention --rounds 12'`

mod estimate;
mod lines;
mod places;
mod tracer;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;

use self::estimate::Cost;
use self::places::Places;
use self::tracer::{Phase, Seen, Tracer};
use crate::support::servers::Servers;
use crate::support::{argument, configmaps, cores, count, report, require};
use harness::client::Client;
use harness::{cluster::grant_everywhere, objects};

const CLIENTS: usize = 8;
/// A line is of all requests if it passes for at least so many of the clients.
const OF_ALL: usize = 6;
const CORES: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
/// How long it is looked at what the server does when nobody asks.
const QUIET: Duration = Duration::from_secs(1);
/// Between two looks, the server does what it could not do in time.
const BETWEEN: Duration = Duration::from_millis(50);
/// Rows of a table.
const MOST_ROWS: usize = 90;
const OPERATIONS: [&str; 3] = ["GET", "LIST of a namespace", "delivery"];
const DELIVERY: usize = 2;
/// The first phase after [`tracer::FREE`].
const NOBODY_ASKS: usize = 1;

pub fn main() {
    require(&[("addr2line", "binutils"), ("taskset", "util-linux")]);
    crate::support::run(contention());
}

async fn contention() {
    let rounds = count("rounds", 12);
    let servers = Servers::start_anywhere(fill).await;
    servers.warm("configmaps").await;
    let clients: Vec<Client> = (0..CLIENTS)
        .map(|n| {
            let user = format!("reader-{n}");
            let pair = servers.cluster.certificates.client(&user, &["readers"]);
            servers.apifront.client(Some(&pair))
        })
        .collect();
    let pid = servers.apifront.process.pid();
    let mut own = Vec::new();
    for path in [get_path, list_path] {
        cores::pin(pid, cores::SERVER);
        cores::pin(std::process::id(), cores::CLIENT);
        let one = micros(&servers, &clients, path).await;
        cores::unpin(pid);
        cores::unpin(std::process::id());
        own.push((one, micros(&servers, &clients, path).await));
    }
    servers.rest().await;
    let mut places = Places::of(pid);
    let tracer = Tracer::start(pid, places.text.clone(), phase_of(OPERATIONS.len(), 0));
    let lasted = operate(&tracer, &servers, &clients, rounds).await;
    let seen = tracer.end().await;
    let callers = seen.callers.iter();
    places.find(callers.flat_map(|((at, _), callers)| callers.iter().copied().chain([*at])));
    let micros_of_line = argument("line-ns", 100) as f64 / 1e3;
    println!(
        "\na line passes between the two cores in {:.0} ns here; below, in {:.0} ns",
        line_ns(),
        micros_of_line * 1e3
    );
    for (operation, name) in OPERATIONS.iter().enumerate() {
        let times = rounds * CLIENTS;
        let of = phase_of(operation, 0)..phase_of(operation + 1, 0);
        let quiet = lasted[operation].div_duration_f64(QUIET) / rounds as f64;
        let counted = Counted::new(&seen, of, quiet, times as f64, &places);
        counted.print(name);
        if let Some((one, both)) = own.get(operation) {
            println!("CPU, measured: {one:.1} µs on one core, {both:.1} on two with clients");
            let cost = Cost {
                own: *one,
                passed: counted.all,
                shared: counted.shared,
            };
            estimates(name, &cost, micros_of_line);
        }
    }
    servers.apifront.stop().await;
}

async fn fill(admin: &Client) {
    configmaps::create(admin, 1_000).await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "reader" },
        "rules": [{
            "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"],
        }],
    });
    let binding = objects::cluster_role_binding("reader", "reader", "Group", "readers");
    grant_everywhere(admin, &[role, binding]).await;
    for n in 0..CLIENTS {
        let map = objects::config_map(&format!("of-{n}"), json!({}), json!({ "k": "v" }));
        let path = "/api/v1/namespaces/default/configmaps";
        admin.post(path, &map).await.expect(201);
    }
}

/// The phase of what one client does. It is quiet in [`NOBODY_ASKS`].
fn phase_of(operation: usize, client: usize) -> usize {
    NOBODY_ASKS + 1 + operation * CLIENTS + client
}

/// Does nothing for a while, then all operations. Returns how long each was looked at.
async fn operate(
    tracer: &Tracer,
    servers: &Servers,
    clients: &[Client],
    rounds: usize,
) -> [Duration; OPERATIONS.len()] {
    let mut lasted = [Duration::ZERO; OPERATIONS.len()];
    for _ in 0..rounds {
        during(tracer, NOBODY_ASKS, tokio::time::sleep(QUIET)).await;
    }
    for (operation, path) in [get_path, list_path].iter().enumerate() {
        // Nobody's rights are asked for later.
        for (n, client) in clients.iter().enumerate() {
            ask(client, &path(n)).await;
        }
        for _ in 0..rounds {
            for (n, client) in clients.iter().enumerate() {
                let (phase, path) = (phase_of(operation, n), path(n));
                lasted[operation] += during(tracer, phase, ask(client, &path)).await;
            }
        }
    }
    let writer = servers.cluster.admin_client();
    let mut watches = Vec::new();
    for client in clients {
        watches.push(watch(client).await);
    }
    change(&writer, 0, &mut watches).await;
    for round in 1..=rounds {
        let phase = phase_of(DELIVERY, round % CLIENTS);
        lasted[DELIVERY] += during(tracer, phase, change(&writer, round, &mut watches)).await;
    }
    lasted
}

/// Looks at all that the server does until the work is done. Returns how long it took.
async fn during(tracer: &Tracer, phase: usize, work: impl Future<Output = ()>) -> Duration {
    tracer.enter(phase).await;
    let began = Instant::now();
    work.await;
    let took = began.elapsed();
    tracer.enter(tracer::FREE).await;
    tokio::time::sleep(BETWEEN).await;
    took
}

fn get_path(n: usize) -> String {
    format!("/api/v1/namespaces/default/configmaps/of-{n}?resourceVersion=0")
}

fn list_path(n: usize) -> String {
    format!("/api/v1/namespaces/tenant-{n:02}/configmaps?resourceVersion=0")
}

async fn ask(client: &Client, path: &str) {
    let answer = client.get(path).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

/// Returns the CPU of a request that nobody looks at, in microseconds.
async fn micros(servers: &Servers, clients: &[Client], path: fn(usize) -> String) -> f64 {
    let requests = count("requests", 2_000);
    let all = || {
        let reads = clients.iter().enumerate().map(|(n, client)| {
            let path = path(n);
            futures::stream::iter(0..requests).for_each_concurrent(4, move |_| {
                let path = path.clone();
                async move { ask(client, &path).await }
            })
        });
        futures::future::join_all(reads)
    };
    all().await;
    let mut rounds = Vec::new();
    for _ in 0..5 {
        let (_, cost) = servers.measure(all()).await;
        rounds.push(cost.apifront.as_secs_f64() * 1e6 / (requests * clients.len()) as f64);
    }
    report::median(rounds)
}

async fn watch(client: &Client) -> Incoming {
    let path = "/api/v1/namespaces/default/configmaps?watch=1&resourceVersion=0\
                &fieldSelector=metadata.name%3Dof-0";
    let answer = client.try_open(Method::GET, path, &[], "").await;
    answer.expect("a watch").into_body()
}

/// Changes the object, and waits until all watches have that.
async fn change(writer: &Client, number: usize, watches: &mut [Incoming]) {
    let number = format!("number-{number}");
    let patch = json!({ "data": { "k": number } }).to_string();
    let headers = [("content-type", "application/merge-patch+json")];
    let answer = writer
        .send(Method::PATCH, &get_path(0), &headers, patch)
        .await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    for watch in watches {
        let mut text = String::new();
        while !text.contains(&number) {
            let frame = watch.frame().await.expect("an event").expect("a frame");
            let data = frame.into_data().unwrap_or_default();
            text.push_str(&String::from_utf8_lossy(&data));
        }
    }
}

/// Returns the nanoseconds in which one word goes from core to core.
fn line_ns() -> f64 {
    const TIMES: u64 = 200_000;
    let (word, both) = (AtomicU64::new(0), Barrier::new(2));
    let play = |odd: u64| {
        both.wait();
        let began = Instant::now();
        for n in 0..TIMES {
            while word.load(Ordering::Acquire) != 2 * n + odd {
                std::hint::spin_loop();
            }
            word.fetch_add(1, Ordering::AcqRel);
        }
        began.elapsed()
    };
    let took = std::thread::scope(|scope| {
        let other = scope.spawn(|| play(1));
        let took = play(0);
        other.join().expect("a thread").max(took)
    });
    took.as_secs_f64() * 1e9 / (2 * TIMES) as f64
}

/// The lines that passed for an operation, on average.
struct Counted {
    all: f64,
    atomics: f64,
    /// How often each line passes that does so for all clients.
    shared: Vec<f64>,
    rows: Vec<Row>,
}

struct Row {
    /// The function that runs, and the place of ours that called it.
    name: (String, String),
    times: f64,
    /// The part of them that is of lines which all share.
    shared: f64,
}

impl Counted {
    /// `quiet` is what happens anyway, as often as this.
    fn new(seen: &Seen, of: Range<usize>, quiet: f64, times: f64, places: &Places) -> Self {
        let (anyway, of) = (&seen.phases[NOBODY_ASKS], &seen.phases[of]);
        let mut clients = HashMap::<u64, HashSet<usize>>::new();
        let mut lines = HashMap::<u64, f64>::new();
        for (client, phase) in of.iter().enumerate() {
            for ((_, line), number) in &phase.passed {
                clients.entry(*line).or_default().insert(client);
                *lines.entry(*line).or_default() += *number as f64 / times;
            }
        }
        let is_of_all = |line: &u64| clients.get(line).is_some_and(|of| of.len() >= OF_ALL);
        let mut rows = BTreeMap::<(String, String), [f64; 2]>::new();
        let mut add = |phase: &Phase, sign: f64| {
            for (place, number) in &phase.passed {
                let number = sign * *number as f64 / times;
                let stack = std::iter::once(&place.0).chain(&seen.callers[place]);
                let row = rows.entry(places.of_stack(stack)).or_default();
                row[0] += number;
                row[1] += if is_of_all(&place.1) { number } else { 0.0 };
            }
        };
        of.iter().for_each(|phase| add(phase, 1.0));
        add(anyway, -quiet);
        let rows = rows.into_iter();
        let mut rows: Vec<Row> = rows
            .map(|(name, [times, shared])| Row {
                name,
                times,
                shared,
            })
            .collect();
        rows.sort_by(|a, b| b.times.total_cmp(&a.times));
        let atomics: usize = of.iter().map(|phase| phase.atomics).sum();
        let mut shared: Vec<f64> = lines
            .iter()
            .filter(|(line, _)| is_of_all(line))
            .map(|(_, number)| *number)
            .collect();
        shared.sort_by(|a, b| b.total_cmp(a));
        Self {
            all: rows.iter().map(|row| row.times).sum(),
            atomics: (atomics as f64 - quiet * anyway.atomics as f64) / times,
            shared,
            rows,
        }
    }

    fn print(&self, name: &str) {
        println!(
            "\n{name}: {:.0} atomic instructions, for which {:.1} lines pass; {} lines pass \
             for all clients, the hottest {}",
            self.atomics,
            self.all,
            self.shared.len(),
            self.shared
                .iter()
                .take(8)
                .map(|times| format!("{times:.1}"))
                .collect::<Vec<_>>()
                .join(", ")
        );
        let heads = ["what runs", "called in", "lines", "of all clients"];
        let rows = self.rows.iter().take(MOST_ROWS).map(|row| {
            let number = |of: f64| format!("{of:.2}");
            vec![
                row.name.0.clone(),
                row.name.1.clone(),
                number(row.times),
                number(row.shared),
            ]
        });
        report::table(&heads, &rows.collect::<Vec<_>>());
    }
}

fn estimates(name: &str, cost: &Cost, micros: f64) {
    println!("\nestimate for {name}, {:.1} µs on one core", cost.own);
    let one = cost.rate(1.0, micros);
    let rows = CORES.map(|cores| {
        let rate = cost.rate(cores, micros);
        vec![
            format!("{cores:.0}"),
            format!("{:.0}", rate),
            format!("{:.1}", rate / one),
        ]
    });
    report::table(&["cores", "requests/s", "times one core"], &rows);
}
