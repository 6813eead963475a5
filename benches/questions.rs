//! Measures the cost in kube-apiserver and etcd of each question that can prove a
//! read to be of the most recent state. Measures such reads, too: directly, and
//! through apifront in `Strict` and in `Fresh`. One client asks one question after
//! another, like a poller. apifront's real savings upstream are printed beside the
//! estimate of its status page.
//!
//! `make bench ARGS='questions --pods 1000 --asks 200'`

use std::time::{Duration, Instant};

use crate::support::report::{self, Goal, median};
use crate::support::{count, lists, pods, usage};
use bytes::Bytes;
use futures::future::join_all;
use harness::apifront::Apifront;
use harness::client::Client;
use harness::cluster::{Cluster, sum_metric};
use harness::media_types::{JSON, PROTOBUF};
use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;

const ROUNDS: usize = 5;
const IDLE: Duration = Duration::from_secs(5);
const METADATA: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// The most upstream CPU that a poller's read may cost through apifront, as a share
/// of the same read without apifront.
const STRICT_GOAL: f64 = 1.0;
const FRESH_GOAL: f64 = 0.5;

/// Kinds with few objects or none.
const KINDS: [&str; 10] = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/endpoints",
    "/api/v1/namespaces/default/limitranges",
    "/api/v1/namespaces/default/persistentvolumeclaims",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/serviceaccounts",
    "/api/v1/namespaces/default/services",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/daemonsets",
    "/apis/batch/v1/namespaces/default/jobs",
];

pub fn main() {
    crate::support::run(questions());
}

struct Question {
    name: &'static str,
    path: String,
    accept: &'static str,
    is_watch: bool,
    /// Whether it takes long and is therefore asked less often.
    is_dear: bool,
}

fn asked(pod: &str) -> Vec<Question> {
    let (folder, name) = pod.rsplit_once('/').expect("a path");
    let all = "/api/v1/pods";
    let watch = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true&fieldSelector=metadata.name%3D_&timeoutSeconds=5";
    let question = |name, path, accept| Question {
        name,
        path,
        accept,
        is_watch: false,
        is_dear: false,
    };
    let dear = |name, accept| Question {
        is_dear: true,
        ..question(name, all.to_owned(), accept)
    };
    let named = format!("{folder}?fieldSelector=metadata.name%3D{name}");
    let nobody = format!("{folder}?fieldSelector=metadata.name%3D_");
    vec![
        question("GET of the object, JSON", pod.to_owned(), JSON),
        question("GET of the object, protobuf", pod.to_owned(), PROTOBUF),
        question("GET of its metadata", pod.to_owned(), METADATA),
        question("LIST of its name, metadata", named, METADATA_LIST),
        question("LIST of nothing in the namespace", nobody, METADATA_LIST),
        question(
            "LIST of nothing",
            format!("{all}?fieldSelector=metadata.name%3D_"),
            METADATA_LIST,
        ),
        question(
            "LIST of one object, metadata",
            format!("{all}?limit=1"),
            METADATA_LIST,
        ),
        Question {
            name: "WATCH of nothing, initial events",
            path: format!("{all}?{watch}"),
            accept: JSON,
            is_watch: true,
            is_dear: false,
        },
        question("LIST of the namespace, JSON", folder.to_owned(), JSON),
        question(
            "LIST of the namespace, protobuf",
            folder.to_owned(),
            PROTOBUF,
        ),
        question(
            "LIST of the namespace, metadata",
            folder.to_owned(),
            METADATA_LIST,
        ),
        dear("LIST of all, JSON", JSON),
        dear("LIST of all, protobuf", PROTOBUF),
        dear("LIST of all, metadata", METADATA_LIST),
    ]
}

impl Question {
    async fn ask(&self, client: &Client) {
        let headers = [("accept", self.accept)];
        if !self.is_watch {
            lists::read(client, &self.path, &headers).await;
            return;
        }
        let watch = client.try_open(Method::GET, &self.path, &headers, Bytes::new());
        let mut body = watch.await.expect("an answer").into_body();
        body.frame().await.expect("a bookmark").expect("a frame");
    }

    /// Returns how often the question is asked in one round. Expensive ones are
    /// asked less often.
    fn times(&self, asks: usize) -> usize {
        match self.is_dear {
            true => (asks / 10).max(1),
            false => asks,
        }
    }
}

/// The CPU that kube-apiserver and etcd have used so far.
#[derive(Clone, Copy)]
struct Upstream {
    apiserver: Duration,
    etcd: Duration,
    at: Instant,
}

/// The seconds of CPU per second that both use when nobody asks anything.
#[derive(Clone, Copy)]
struct Idle([f64; 2]);

impl Idle {
    async fn measure(cluster: &Cluster) -> Self {
        let before = Upstream::now(cluster);
        tokio::time::sleep(IDLE).await;
        let [apiserver, etcd] = before.used(cluster);
        let seconds = before.at.elapsed().as_secs_f64();
        Self([apiserver / seconds, etcd / seconds])
    }
}

impl Upstream {
    fn now(cluster: &Cluster) -> Self {
        Self {
            apiserver: usage::cpu_time(cluster.apiserver.pid()),
            etcd: usage::cpu_time(cluster.etcd.pid()),
            at: Instant::now(),
        }
    }

    /// Returns the seconds that both have used since then.
    fn used(self, cluster: &Cluster) -> [f64; 2] {
        let now = Self::now(cluster);
        let used = |now: Duration, before: Duration| (now - before).as_secs_f64();
        [
            used(now.apiserver, self.apiserver),
            used(now.etcd, self.etcd),
        ]
    }

    /// Returns the microseconds that both have used since then for each of `times`.
    /// Excludes what they use when idle: a read that waits takes longer, but costs
    /// nothing meanwhile.
    fn since(self, cluster: &Cluster, idle: Idle, times: usize) -> [f64; 2] {
        let used = self.used(cluster);
        let seconds = self.at.elapsed().as_secs_f64();
        [0, 1].map(|of| (used[of] - idle.0[of] * seconds) * 1e6 / times as f64)
    }
}

async fn questions() {
    let (number, asks) = (count("pods", 1_000), count("asks", 200));
    let cluster = Cluster::start(&[]).await;
    pods::create(&cluster.admin_client(), number).await;
    let pod = pods::path(0);
    let questions = asked(&pod);

    println!("\nµs of CPU for each question, {number} pods of 9 KB in 20 namespaces\n");
    let client = cluster.admin_client();
    let mut prices = vec![Vec::new(); questions.len()];
    let idle = Idle::measure(&cluster).await;
    for _ in 0..ROUNDS {
        for (question, prices) in questions.iter().zip(&mut prices) {
            question.ask(&client).await;
            let (before, times) = (Upstream::now(&cluster), question.times(asks));
            for _ in 0..times {
                question.ask(&client).await;
            }
            prices.push(before.since(&cluster, idle, times));
        }
    }
    let rows: Vec<_> = questions
        .iter()
        .zip(&prices)
        .map(|(question, prices)| {
            let [apiserver, etcd] = medians(prices);
            vec![
                question.name.to_owned(),
                format!("{apiserver:.0}"),
                format!("{etcd:.0}"),
                format!("{:.0}", apiserver + etcd),
            ]
        })
        .collect();
    report::table(&["question", "kube-apiserver", "etcd", "both"], &rows);
    through(&cluster, &pod, asks).await;
}

/// Measures reads of the most recent state directly and through apifront.
async fn through(cluster: &Cluster, pod: &str, asks: usize) {
    let strict = Apifront::start_directly(cluster, |_| {}).await;
    let fresh = Apifront::start_directly(cluster, |config| {
        config["cache"] = serde_json::json!({ "consistency": "Fresh" });
    })
    .await;
    for front in [&strict, &fresh] {
        for path in [&["/api/v1/namespaces/none/pods"], &KINDS[..]].concat() {
            let path = format!("{path}?resourceVersion=0");
            front.warm(&front.admin_client(), &path).await;
        }
    }
    let fronts = [None, Some(&strict), Some(&fresh)];
    let ways = [
        cluster.admin_client(),
        strict.admin_client(),
        fresh.admin_client(),
    ];
    let (folder, _) = pod.rsplit_once('/').expect("a path");
    let idle = Idle::measure(cluster).await;
    println!("\nµs of CPU of kube-apiserver and etcd for each read of somebody who polls\n");
    let admin = cluster.admin_client();
    let mut rows = Vec::new();
    let mut ratios = Vec::new();
    for (name, paths, times) in [
        ("GET", &[pod][..], asks),
        ("LIST of a namespace", &[folder], asks),
        ("LIST of all", &["/api/v1/pods"], (asks / 10).max(1)),
        ("LISTs of ten kinds at once", &KINDS, asks),
    ] {
        let mut prices = [const { Vec::new() }; 3];
        let mut requests = [0.0; 3];
        let mut estimates = [0.0; 3];
        for _ in 0..ROUNDS {
            for (way, client) in ways.iter().enumerate() {
                read_at_once(client, paths).await;
                let spared_before = spared(fronts[way]).await;
                let answered = answered(&admin).await;
                let before = Upstream::now(cluster);
                for _ in 0..times {
                    read_at_once(client, paths).await;
                }
                prices[way].push(before.since(cluster, idle, times));
                requests[way] += answered_since(&admin, answered).await;
                estimates[way] += spared(fronts[way]).await - spared_before;
            }
        }
        let sums = prices.map(|prices| medians(&prices).iter().sum::<f64>());
        let [direct, strict, fresh] = sums;
        let mut row = vec![name.to_owned()];
        row.extend(sums.map(|price| format!("{price:.0}")));
        let reads = (ROUNDS * times) as f64;
        row.extend(requests.map(|requests| format!("{:.2}", requests / reads)));
        for (price, estimate) in [(strict, estimates[1]), (fresh, estimates[2])] {
            row.push(format!("{:.0}", direct - price));
            row.push(format!("{:.0}", estimate * 1e6 / reads));
        }
        rows.push(row);
        ratios.push((name, strict / direct, fresh / direct));
    }
    let header = [
        "read",
        "direct",
        "Strict",
        "Fresh",
        "requests",
        "Strict",
        "Fresh",
        "Strict spares",
        "estimate",
        "Fresh spares",
        "estimate",
    ];
    report::table(&header, &rows);
    println!();
    for (name, strict, fresh) in ratios {
        report::compare(
            &format!("{name}, Strict : direct"),
            strict,
            "x",
            Goal::AtMost(STRICT_GOAL),
        );
        report::compare(
            &format!("{name}, Fresh : direct"),
            fresh,
            "x",
            Goal::AtMost(FRESH_GOAL),
        );
    }
}

async fn spared(front: Option<&Apifront>) -> f64 {
    let Some(front) = front else { return 0.0 };
    let client = Client::plain(front.observability);
    let status: Value = client.get("/status.json").await.expect(200);
    let estimate = &status["totals"]["sparedUpstreamCpuSeconds"]["estimate"];
    estimate.as_f64().expect("a number")
}

async fn answered(admin: &Client) -> f64 {
    let metrics = admin.get("/metrics").await.text();
    sum_metric(&metrics, "apiserver_request_total", &[])
}

/// Returns the number since then, without the request that reads it.
async fn answered_since(admin: &Client, before: f64) -> f64 {
    answered(admin).await - before - 1.0
}

async fn read_at_once(client: &Client, paths: &[&str]) {
    join_all(
        paths
            .iter()
            .map(|path| lists::read(client, path, &[("accept", JSON)])),
    )
    .await;
}

fn medians(prices: &[[f64; 2]]) -> [f64; 2] {
    [0, 1].map(|of| median(prices.iter().map(|p| p[of])))
}
