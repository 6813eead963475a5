//! One user with hundreds of expensive requests (the elephant) beside fifty with a
//! few cheap ones (the mice). Compares API Priority and Fairness in kube-apiserver
//! and in apifront, with the same FlowSchema and a priority level of a few seats.
//!
//! The elephant lists with a selector that matches nothing: each request makes the
//! server look at every object and costs the client nothing. A mouse gets one
//! ConfigMap, at a steady rate. In one run each user is a flow of its own; in
//! another all of them are one flow, as without fairness.
//!
//! `make bench ARGS='overload --objects 20000 --elephants 400 --seconds 10'`

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use crate::support::report::{self, Goal, percentile};
use crate::support::servers::Servers;
use crate::support::{configmaps, count, require, seconds};
use futures::future::join_all;
use harness::client::Client;
use harness::cluster::Cluster;
use harness::objects::{self, FLOW_CONTROL};
use serde_json::{Value, json};

const MICE: usize = 50;
const MOUSE_RESTS: Duration = Duration::from_millis(250);
/// The elephant's concurrent requests on each connection.
const STREAMS: usize = 100;
/// The time in which queues fill before the measurement.
const SETTLES: Duration = Duration::from_secs(3);
/// The most that a mouse waits at p99 beside the elephant, relative to its wait at
/// kube-apiserver.
const GOAL: f64 = 1.0;

pub fn main() {
    require(&[("taskset", "util-linux")]);
    crate::support::run(overload());
}

async fn overload() {
    let objects = count("objects", 20_000);
    let elephants = count("elephants", 400);
    let lasts = seconds("seconds", 10);
    let servers = Servers::start(&[], async |admin| {
        configmaps::create(admin, objects).await;
        prepare(admin).await;
    })
    .await;
    servers.warm("configmaps").await;
    println!(
        "\n{objects} ConfigMaps, {elephants} requests of the elephant at a time, {MICE} mice, \
         {lasts:?} each"
    );
    let mut rows = Vec::new();
    let mut waited = [Vec::new(), Vec::new()];
    for (load, distinguisher, elephants) in [
        ("mice alone", "ByUser", 0),
        ("fair", "ByUser", elephants),
        ("one flow", "", elephants),
    ] {
        distinguish(&servers.cluster, distinguisher).await;
        for (side, waited) in waited.iter_mut().enumerate() {
            let name = ["kube-apiserver", "apifront"][side];
            let crowd = Crowd::new(&servers, side, elephants);
            let before = (servers.direct().cpu(), servers.front().cpu());
            let seen = crowd.run(lasts).await;
            let cpu = [
                servers.direct().cpu() - before.0,
                servers.front().cpu() - before.1,
            ];
            waited.push(percentile(&seen.mice.times, 99.0));
            rows.push(seen.row(load, name, lasts, cpu[side]));
        }
    }
    let heads = [
        "load",
        "server",
        "mice/s",
        "p50 ms",
        "p99 ms",
        "429",
        "elephant/s",
        "p50 ms",
        "p99 ms",
        "429",
        "CPU s",
    ];
    report::table(&heads, &rows);
    let [theirs, ours] = waited.map(|of| of[1]);
    let ratio = ours / theirs;
    report::compare(
        "mice beside the elephant, p99",
        ratio,
        "x kube-apiserver's",
        Goal::AtMost(GOAL),
    );
    servers.apifront.stop().await;
}

#[derive(Default)]
struct Seen {
    /// Milliseconds of each answered request.
    times: Vec<f64>,
    refused: usize,
}

impl Seen {
    fn cells(&self, lasts: Duration) -> [String; 4] {
        let per_second = self.times.len() as f64 / lasts.as_secs_f64();
        let at = |percent| match self.times.is_empty() {
            true => "-".to_owned(),
            false => format!("{:.1}", percentile(&self.times, percent)),
        };
        [
            format!("{per_second:.0}"),
            at(50.0),
            at(99.0),
            self.refused.to_string(),
        ]
    }
}

struct Both {
    mice: Seen,
    elephant: Seen,
}

impl Both {
    fn row(&self, load: &str, server: &str, lasts: Duration, cpu: Duration) -> Vec<String> {
        let mut row = vec![load.to_owned(), server.to_owned()];
        row.extend(self.mice.cells(lasts));
        row.extend(self.elephant.cells(lasts));
        row.push(format!("{:.1}", cpu.as_secs_f64()));
        row
    }
}

struct Crowd {
    mice: Vec<Client>,
    elephants: Vec<Client>,
    measures: Cell<bool>,
    ends: Cell<bool>,
    seen: RefCell<Both>,
}

impl Crowd {
    fn new(servers: &Servers, side: usize, elephants: usize) -> Self {
        let client = |name: &str| {
            let pair = servers.cluster.certificates.client(name, &["crowd"]);
            match side {
                0 => servers.cluster.client(Some(&pair)),
                _ => servers.apifront.client(Some(&pair)),
            }
        };
        let elephant = client("elephant");
        let connections: Vec<Client> = (0..elephants.div_ceil(STREAMS))
            .map(|_| elephant.separate())
            .collect();
        Self {
            mice: (0..MICE).map(|n| client(&format!("mouse-{n}"))).collect(),
            elephants: (0..elephants)
                .map(|n| connections[n / STREAMS].clone())
                .collect(),
            measures: Cell::new(false),
            ends: Cell::new(false),
            seen: RefCell::new(Both {
                mice: Seen::default(),
                elephant: Seen::default(),
            }),
        }
    }

    async fn run(self, lasts: Duration) -> Both {
        let mice = join_all(self.mice.iter().enumerate().map(|(n, c)| self.mouse(n, c)));
        let elephants = join_all(self.elephants.iter().map(|client| self.elephant(client)));
        let end = async {
            tokio::time::sleep(SETTLES).await;
            self.measures.set(true);
            tokio::time::sleep(lasts).await;
            self.measures.set(false);
            self.ends.set(true);
        };
        tokio::join!(mice, elephants, end);
        self.seen.into_inner()
    }

    async fn mouse(&self, n: usize, client: &Client) {
        let path = format!("{}/settings-{n:06}", configmaps::folder(n));
        // Mice do not all start at once.
        tokio::time::sleep(MOUSE_RESTS * n as u32 / MICE as u32).await;
        while !self.ends.get() {
            let began = Instant::now();
            let code = ask(client, &path).await;
            assert!(matches!(code, 200 | 429), "a mouse got {code}");
            if self.measures.get() {
                note(&mut self.seen.borrow_mut().mice, code, began);
            }
            tokio::time::sleep(MOUSE_RESTS).await;
        }
    }

    async fn elephant(&self, client: &Client) {
        // Each list differs, so that none serves two requests.
        while !self.ends.get() {
            let path = "/api/v1/configmaps?resourceVersion=0&labelSelector=tier%3Dnone";
            let began = Instant::now();
            let code = ask(client, path).await;
            assert!(matches!(code, 200 | 429), "the elephant got {code}");
            if self.measures.get() {
                note(&mut self.seen.borrow_mut().elephant, code, began);
            }
            if code == 429 {
                // client-go waits as long as Retry-After says, at least a second.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn ask(client: &Client, path: &str) -> u16 {
    client.get(path).await.status.as_u16()
}

fn note(seen: &mut Seen, code: u16, began: Instant) {
    match code {
        429 => seen.refused += 1,
        _ => seen.times.push(began.elapsed().as_secs_f64() * 1e3),
    }
}

async fn prepare(admin: &Client) {
    let queuing = json!({ "queues": 64, "handSize": 6, "queueLengthLimit": 50 });
    let level = objects::priority_level(
        "crowd",
        json!({ "type": "Limited", "limited": {
            "nominalConcurrencyShares": 4,
            "lendablePercent": 0,
            "borrowingLimitPercent": 0,
            "limitResponse": { "type": "Queue", "queuing": queuing },
        } }),
    );
    let path = format!("{FLOW_CONTROL}/prioritylevelconfigurations");
    admin.post(&path, &level).await.expect(201);
    let path = format!("{FLOW_CONTROL}/flowschemas");
    admin.post(&path, &flow_schema("ByUser")).await.expect(201);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": "crowd" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] }],
    });
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    admin
        .post(&format!("{rbac}/clusterroles"), &role)
        .await
        .expect(201);
    let binding = objects::cluster_role_binding("crowd", "crowd", "Group", "crowd");
    let path = format!("{rbac}/clusterrolebindings");
    admin.post(&path, &binding).await.expect(201);
}

fn flow_schema(distinguisher: &str) -> Value {
    let method = match distinguisher {
        "" => Value::Null,
        method => json!({ "type": method }),
    };
    objects::flow_schema(
        "crowd",
        json!({
            "priorityLevelConfiguration": { "name": "crowd" },
            "matchingPrecedence": 100,
            "distinguisherMethod": method,
            "rules": [{
                "subjects": [{ "kind": "Group", "group": { "name": "crowd" } }],
                "resourceRules": [{
                    "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"],
                    "clusterScope": true,
                }],
            }],
        }),
    )
}

/// Makes each user a flow of its own, or all of them one flow.
async fn distinguish(cluster: &Cluster, distinguisher: &str) {
    let method = &flow_schema(distinguisher)["spec"]["distinguisherMethod"];
    let change = json!({ "spec": { "distinguisherMethod": method } });
    let path = format!("{FLOW_CONTROL}/flowschemas/crowd");
    let admin = cluster.admin_client();
    admin
        .patch(&path, "merge-patch+json", &change)
        .await
        .expect(200);
    // Nothing shows when a server has read it. It takes milliseconds.
    tokio::time::sleep(Duration::from_secs(2)).await;
}
