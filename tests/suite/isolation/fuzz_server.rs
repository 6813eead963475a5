//! Sends random bytes and absurd requests to the whole server: HTTP/1 streams with
//! errors, HTTP/2 frames in random order, and valid requests for the impossible.
//! Nothing may panic or hang, memory must return to its former level, and another
//! caller must be served normally.
//!
//! `APIFRONT_TEST_SEED` replays a run, `APIFRONT_TEST_EXECUTIONS` lengthens it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use http::Method;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::nasty::{self, Nasty};
use super::{http1_bytes, http2_frames};
use crate::harness::apifront::Apifront;
use crate::harness::apiserver::TOKEN_USERS;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::pool::Lease;
use crate::harness::raw::RawConnection;
use crate::harness::watch::Watch;
use crate::harness::{eventually, objects, ports, volume};

/// The number of tries before a difference counts.
const TRIES: usize = 3;
const EXECUTIONS: &str = "APIFRONT_TEST_EXECUTIONS";
const DEFAULT_EXECUTIONS: usize = 6_000;
/// The number of concurrent connections.
const AT_ONCE: usize = 24;
/// The time to wait for an answer to garbage, which comes quickly or not at all.
const QUIET: Duration = Duration::from_millis(60);
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);
/// The time in which the server must close after the client has written everything.
/// A watch may last one second longer.
const CLOSED_WITHIN: Duration = Duration::from_secs(10);
/// The time in which the witness must be answered. It allows for a machine that also
/// runs other suites.
const WITNESSED_WITHIN: Duration = Duration::from_secs(20);
/// The memory that may remain: the allocator's share of the busiest moment, and
/// the buffers of connections that still wait for the rest of their headers.
const KEPT: u64 = 96 << 20;
const SETTLES_WITHIN: Duration = Duration::from_secs(60);
/// The statuses besides 4xx that garbage may get: for features that HTTP does not
/// know, for a path without a kind (`/api/v1/watch`), where kube-apiserver answers
/// 500 too, and for a tunnel whose client sent more before the answer.
const SERVER_ERRORS: [u16; 4] = [500, 501, 503, 505];
const WITNESSED: &str = "/api/v1/namespaces/kube-system/configmaps?resourceVersion=0";
const FORWARDED: &str = "/api/v1/namespaces/kube-system/events";
const GROUP: &str = "nasty.example.test";
/// The depth of a nested object. One function call per level would overflow a stack
/// of 2 MiB.
const DEPTH: usize = 4_000;

struct World {
    cluster: Lease,
    front: Apifront,
    insecure: std::net::SocketAddr,
    /// Two clients, direct and through apifront, of a user who may read everything
    /// and write nothing.
    reader: (Client, Client),
    authorization: String,
}

impl World {
    async fn start() -> Self {
        let cluster = Cluster::leased(&[]).await;
        let admin = cluster.admin_client();
        let token = &TOKEN_USERS[0];
        let role = "system:reads-all";
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        let rules = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": role},
            "rules": [
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
                {"nonResourceURLs": ["*"], "verbs": ["get"]},
            ],
        });
        admin.post(path, &rules).await.expect(201);
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        let binding = objects::cluster_role_binding("reads-all", role, "User", token.user);
        admin.post(path, &binding).await.expect(201);
        fill(&admin).await;
        let insecure = ports::free();
        let front = Apifront::start(&cluster, |config| {
            config["serving"]["insecurePort"] = json!(insecure);
            config["serving"]["requestHeaderTimeout"] = json!("5s");
        })
        .await;
        let reader = |client: Client| client.token(token.token);
        let world = Self {
            reader: (reader(cluster.client(None)), reader(front.client(None))),
            insecure: ports::loopback(insecure),
            cluster,
            front,
            authorization: format!("Bearer {}", token.token),
        };
        eventually("the reader may read", SETTLES_WITHIN, || async {
            world.reader.0.get("/api/v1/nodes").await.status == 200
        })
        .await;
        for path in [
            "/api/v1/configmaps?resourceVersion=0",
            "/api/v1/pods?resourceVersion=0",
            "/api/v1/nodes?resourceVersion=0",
            "/api/v1/namespaces?resourceVersion=0",
            WITNESSED,
        ] {
            let admin = world.front.admin_client();
            world.front.warm(&admin, path).await;
        }
        world
    }

    async fn connect(&self, rng: &mut StdRng, protocol: &[u8]) -> Option<RawConnection> {
        if rng.random_bool(0.5) {
            let stream = TcpStream::connect(self.insecure).await.ok()?;
            return Some(RawConnection::new(stream));
        }
        let stream = self.reader.1.tls_stream(protocol).await.ok()?;
        Some(RawConnection::new(stream))
    }
}

async fn fill(admin: &Client) {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut definition = objects::widget_definition(GROUP);
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"] = json!(true);
    admin.post(definitions, &definition).await.expect(201);
    let widgets = format!("/apis/{GROUP}/v1/namespaces/default/widgets");
    eventually("widgets are served", SETTLES_WITHIN, || async {
        admin.get(&widgets).await.status == 200
    })
    .await;
    // The object is text, since dropping a `Value` of this depth would overflow the
    // stack.
    let deep = format!(
        "{{\"apiVersion\":\"{GROUP}/v1\",\"kind\":\"Widget\",\"metadata\":{{\"name\":\"deep\"}},\
         \"spec\":{}1{}}}",
        "{\"a\":".repeat(DEPTH),
        "}".repeat(DEPTH),
    );
    let headers = [("content-type", "application/json")];
    let made = admin.send(Method::POST, &widgets, &headers, deep).await;
    assert_eq!(made.status, 201, "{:.300}", made.text());
    let object = objects::config_map("nasty", json!({"a": "b"}), json!({"a": "\u{0}"}));
    let list = "/api/v1/namespaces/default/configmaps";
    admin.post(list, &object).await.expect(201);
}

#[derive(Default)]
struct Tally {
    executions: BTreeMap<&'static str, usize>,
    statuses: BTreeMap<(&'static str, Option<u16>), usize>,
    wrong: Vec<String>,
}

impl Tally {
    fn add(&mut self, kind: &'static str, status: Option<u16>) {
        *self.executions.entry(kind).or_default() += 1;
        *self.statuses.entry((kind, status)).or_default() += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it measures: make test-measured"]
async fn no_bytes_and_no_request_harm_the_server() {
    skip_under_oracle!("the bytes that it is sent are meant for apifront");
    let seed = volume::seed("fuzz_server");
    let wanted = volume::work(EXECUTIONS, DEFAULT_EXECUTIONS);
    let mut world = World::start().await;
    let tally = Mutex::new(Tally::default());
    let stop = AtomicBool::new(false);
    // In the first part, everything grows that grows only once.
    let warm_up = (wanted / 4).min(1_500);
    let started = Instant::now();
    let attack = async {
        for nasty in nasty::known() {
            ask(&world, &nasty, &tally).await;
        }
        execute(&world, seed, 0..warm_up, &tally).await;
        let before = world.front.process.resident_bytes();
        execute(&world, seed, warm_up..wanted, &tally).await;
        stop.store(true, Ordering::Relaxed);
        before
    };
    let (before, latencies) = tokio::join!(attack, witness(&world, &stop, &tally));
    let took = started.elapsed();
    let mut after = 0;
    let settles = Instant::now() + SETTLES_WITHIN;
    while Instant::now() < settles {
        after = world.front.process.resident_bytes();
        if after <= before + KEPT {
            break;
        }
        crate::harness::pace::of_tries(Duration::from_millis(200)).await;
    }
    let tally = tally.into_inner();
    println!(
        "fuzz_server: {:?} executions in {took:.1?}; statuses {:?}; memory {} MiB, then {} MiB; \
         the witness was answered {} times, p50 {:.1?}, p99 {:.1?}, at most {:.1?}",
        tally.executions,
        tally.statuses,
        before >> 20,
        after >> 20,
        latencies.len(),
        percentile(&latencies, 50),
        percentile(&latencies, 99),
        percentile(&latencies, 100),
    );
    let log = world.front.process.log();
    let panics: Vec<&str> = log.lines().filter(|l| l.contains("panicked")).collect();
    assert!(world.front.process.alive(), "it ended");
    let shown: String = tally.wrong.iter().take(20).cloned().collect();
    let (panics, wrong) = (panics.len(), tally.wrong.len());
    assert_eq!(
        (panics, wrong),
        (0, 0),
        "panics and wrong answers:\n{shown}"
    );
    assert!(after <= before + KEPT, "memory grew");
    world.front.stop().await;
    drop(world.cluster);
}

/// Runs the executions. Each has its own seed, so that it can run alone.
async fn execute(world: &World, seed: u64, numbers: std::ops::Range<usize>, tally: &Mutex<Tally>) {
    let one = |n: usize| async move {
        let seed = seed.wrapping_add(n as u64);
        let rng = &mut StdRng::seed_from_u64(seed);
        match n % 5 {
            0 | 1 => http1(world, rng, seed, tally).await,
            2 | 3 => http2(world, rng, tally).await,
            _ => ask(world, &nasty::random(rng), tally).await,
        }
    };
    futures::stream::iter(numbers)
        .for_each_concurrent(AT_ONCE, one)
        .await;
}

async fn http1(world: &World, rng: &mut StdRng, seed: u64, tally: &Mutex<Tally>) {
    let Some(mut connection) = world.connect(rng, b"http/1.1").await else {
        tally.lock().add("HTTP/1", None);
        return;
    };
    let header = format!("Authorization: {}\r\n", world.authorization);
    let pieces = http1_bytes::stream(rng, &header);
    for piece in &pieces {
        // The server may close before the end of the writes.
        if connection.write(piece).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    let mut answer = connection.read_until_quiet(QUIET).await;
    // A client that has finished writing must see the connection close, unless it
    // watches.
    let all = pieces.concat();
    let watches = all.windows(5).any(|w| w == b"watch") || all.windows(7).any(|w| w == b"Upgrade");
    if !watches && rng.random_bool(0.1) {
        let _ = connection.finish().await;
        if !connection.closed_within(CLOSED_WITHIN).await {
            let text = String::from_utf8_lossy(&all).into_owned();
            let line = format!("seed {seed}: not closed after the end: {text:.300}\n");
            tally.lock().wrong.push(line);
        }
    }
    let status = status(&answer);
    answer.truncate(100);
    let mut tally = tally.lock();
    if status.is_some_and(|code| code >= 500 && !SERVER_ERRORS.contains(&code)) {
        let (asked, text) = (
            String::from_utf8_lossy(&all),
            String::from_utf8_lossy(&answer),
        );
        let line = format!("seed {seed}: {text:.100?}: {asked:.300}\n");
        tally.wrong.push(line);
    }
    tally.add("HTTP/1", status);
}

fn status(answer: &[u8]) -> Option<u16> {
    let digits = answer.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

async fn http2(world: &World, rng: &mut StdRng, tally: &Mutex<Tally>) {
    if let Some(mut connection) = world.connect(rng, b"h2").await {
        let bytes = http2_frames::stream(rng, &world.authorization);
        let _ = connection.write(&bytes).await;
        connection.read_until_quiet(QUIET).await;
    }
    tally.lock().add("HTTP/2", None);
}

/// Asks both servers, and again if they differ: on a busy machine, a request's time
/// limit may pass at one of them.
async fn ask(world: &World, nasty: &Nasty, tally: &Mutex<Tally>) {
    let mut answers = compare(world, nasty).await;
    for _ in 1..TRIES {
        if answers.alike {
            break;
        }
        answers = compare(world, nasty).await;
    }
    let Answers {
        direct,
        front,
        alike,
    } = answers;
    let mut tally = tally.lock();
    if !alike {
        let (target, headers) = (&nasty.target, &nasty.headers);
        let line = format!("- {direct:?} + {front:?}: {target:.300} {headers:.300?}\n");
        tally.wrong.push(line);
    }
    tally.add("absurd", front.ok());
}

struct Answers {
    direct: Result<u16, String>,
    front: Result<u16, String>,
    alike: bool,
}

/// Asks both servers once. kube-apiserver's answer is right.
async fn compare(world: &World, nasty: &Nasty) -> Answers {
    let (direct, front) = tokio::join!(
        answered(&world.reader.0, nasty),
        answered(&world.reader.1, nasty),
    );
    let refused_as_too_large = nasty.is_too_large() && matches!(front, Ok(431 | 414) | Err(_));
    let alike = match (&direct, &front) {
        (Ok(right), Ok(found)) => right == found,
        // Over HTTP/2, Go ends the stream of a request that it cannot read.
        (Err(_), Ok(found)) => (400..500).contains(found),
        (Err(_), Err(error)) => !error.contains("not within"),
        (Ok(right), Err(_)) => *right == 400,
    };
    Answers {
        alike: alike || refused_as_too_large,
        direct,
        front,
    }
}

/// Returns the status after the body's end; if the request may be a watch, at once.
async fn answered(client: &Client, nasty: &Nasty) -> Result<u16, String> {
    let answer = async {
        let response = client
            .try_open(Method::GET, &nasty.target, &nasty.fields(), Bytes::new())
            .await?;
        let status = response.status().as_u16();
        if !nasty.may_watch() {
            response.into_body().collect().await?;
        }
        anyhow::Ok(status)
    };
    match tokio::time::timeout(ANSWERED_WITHIN, answer).await {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(_) => Err(format!("not within {ANSWERED_WITHIN:?}")),
    }
}

/// Acts as a normal caller, who must get correct answers in time, and every event.
async fn witness(world: &World, stop: &AtomicBool, tally: &Mutex<Tally>) -> Vec<Duration> {
    let (admin, direct) = (world.front.admin_client(), world.cluster.admin_client());
    let list = "/api/v1/namespaces/kube-system/configmaps";
    let names = |list: &Value| -> Vec<String> {
        let items = list["items"].as_array().into_iter().flatten();
        items.map(|i| i["metadata"]["name"].to_string()).collect()
    };
    let watched = format!("{WITNESSED}&watch=1&labelSelector=witness");
    let right = names(&direct.get(WITNESSED).await.expect(200));
    let mut watch = Watch::open(&admin, &watched).await;
    let mut latencies = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for path in [WITNESSED, FORWARDED] {
            // Every tenth request has its own connection, which proves that new ones
            // are served too.
            let client = match latencies.len() % 10 {
                0 => admin.separate(),
                _ => admin.clone(),
            };
            let started = Instant::now();
            let asked = client.try_send(Method::GET, path, &[], "");
            let found = match tokio::time::timeout(WITNESSED_WITHIN, asked).await {
                Err(_) => format!("not within {WITNESSED_WITHIN:?}"),
                Ok(Err(error)) => format!("{error:#}"),
                Ok(Ok(answer)) if answer.status != 200 => answer.text(),
                Ok(Ok(answer)) if path == WITNESSED && names(&answer.json()) != right => {
                    answer.text()
                }
                Ok(Ok(_)) => String::new(),
            };
            if !found.is_empty() {
                let line = format!("the witness, {path}: {found:.300}\n");
                tally.lock().wrong.push(line);
            }
            latencies.push(started.elapsed());
        }
        crate::harness::pace::of_load(Duration::from_millis(20)).await;
    }
    let event = objects::config_map("last", json!({"witness": "1"}), json!({}));
    direct.post(list, &event).await.expect(201);
    assert_eq!(watch.take_short(1).await, ["ADDED last"]);
    latencies.sort();
    latencies
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}
