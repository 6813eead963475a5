//! Shows an outage of the API server as apifront's clients see it, with and without
//! `cache.degraded`. Each client asks once a second before, during and after the
//! outage. TLS, HTTP/2.
//!
//! `make bench ARGS='outage --seconds 600'`

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::support::{pods, report, seconds};
use harness::apifront::Apifront;
use harness::client::{Answer, Client};
use harness::cluster::Cluster;
use harness::objects::cluster_role_binding;
use harness::watch::Watch;
use http::Method;
use serde_json::json;
use tokio::task::JoinSet;

const PODS: usize = 100;
/// The time for which clients ask before the outage, and again after it.
const QUIET: Duration = Duration::from_secs(15);
/// The limit for the age of answers exceeds the outage by this much.
const LONGER: Duration = Duration::from_secs(300);
const EVERY: Duration = Duration::from_secs(1);
/// The time after which a client gives up on an answer.
const PATIENCE: Duration = Duration::from_secs(5);

const UNSET: &str = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-0000";
const ANY: &str = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-0000&resourceVersion=0";
const INFORMER: &str = "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-0000&watch=1\
                        &sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                        &allowWatchBookmarks=true&timeoutSeconds=1";

pub fn main() {
    crate::support::run(outage());
}

async fn outage() {
    let length = seconds("seconds", 600);
    let mut cluster = Cluster::start(&[]).await;
    pods::create_on(&cluster.admin_client(), PODS, 4).await;
    allow(&cluster).await;
    let fronts = [
        ("off", Apifront::start(&cluster, |_| {}).await),
        ("on", degraded(&cluster, length + LONGER).await),
    ];
    let phase = Arc::new(Mutex::new(Phase::Before));
    let mut clients = JoinSet::new();
    for (mode, front) in &fronts {
        let mode = *mode;
        let client = |user, groups: &[&str]| {
            let pair = cluster.certificates.client(user, groups);
            front.client(Some(&pair))
        };
        let kubelet = client("system:node:node-0000", &["system:nodes"]);
        let other = client("dashboard", &["dashboards"]);
        front.warm(&kubelet, ANY).await;
        let asks = [
            ("kubelet, LIST", &kubelet, Ask::Get(UNSET.to_owned())),
            ("kubelet, LIST RV=0", &kubelet, Ask::Get(ANY.to_owned())),
            ("kubelet, GET", &kubelet, Ask::Get(pods::path(0))),
            (
                "kubelet, new WatchList",
                &kubelet,
                Ask::Get(INFORMER.to_owned()),
            ),
            (
                "kubelet, open watch",
                &kubelet,
                Ask::Watch(UNSET.to_owned()),
            ),
            ("not named, LIST", &other, Ask::Get(UNSET.to_owned())),
            ("not named, LIST RV=0", &other, Ask::Get(ANY.to_owned())),
            (
                "admin, PATCH",
                &front.admin_client(),
                Ask::Patch(pods::path(0)),
            ),
        ];
        for (n, (name, client, ask)) in asks.into_iter().enumerate() {
            let client = client.separate();
            let phase = Arc::clone(&phase);
            let seen = Seen::default();
            clients.spawn(async move { ((n, mode, name), ask.run(&client, &phase, seen).await) });
        }
    }
    let set = |now| *phase.lock().expect("no panic") = now;
    tokio::time::sleep(QUIET).await;
    println!("kube-apiserver is killed, for {length:?}");
    set(Phase::During);
    cluster.apiserver.kill();
    tokio::time::sleep(length).await;
    cluster.apiserver.start_again();
    cluster.wait_ready().await;
    println!("kube-apiserver is ready again");
    set(Phase::After(Instant::now()));
    tokio::time::sleep(QUIET).await;
    set(Phase::End);

    let mut rows: Vec<_> = clients.join_all().await;
    rows.sort_by_key(|(key, _)| *key);
    let rows: Vec<_> = rows
        .into_iter()
        .map(|((_, mode, name), seen)| seen.row(name, mode))
        .collect();
    println!("\n8 clients of each apifront, each once a second; an outage of {length:?}");
    report::table(
        &[
            "client",
            "degraded mode",
            "before",
            "in the outage",
            "oldest",
            "slowest ms",
            "after",
            "current again s",
        ],
        &rows,
    );
    for (_, front) in fronts {
        front.stop().await;
    }
}

/// Lets both users read pods.
async fn allow(cluster: &Cluster) {
    let admin = cluster.admin_client();
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({
        "metadata": { "name": "reads-pods" },
        "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"] }],
    });
    let answer = admin.post(&format!("{rbac}/clusterroles"), &role).await;
    answer.expect(201);
    for group in ["system:nodes", "dashboards"] {
        let name = format!("reads-pods-{}", group.replace(':', "-"));
        let binding = cluster_role_binding(&name, "reads-pods", "Group", group);
        let path = format!("{rbac}/clusterrolebindings");
        admin.post(&path, &binding).await.expect(201);
    }
}

async fn degraded(cluster: &Cluster, max_age: Duration) -> Apifront {
    Apifront::start(cluster, |config| {
        config["cache"]["degraded"] = json!({
            "reads": [{ "resources": ["pods"], "groups": ["system:nodes"] }],
            "maxAge": format!("{}s", max_age.as_secs()),
        });
    })
    .await
}

#[derive(Clone, Copy)]
enum Phase {
    Before,
    During,
    After(Instant),
    End,
}

enum Ask {
    Get(String),
    Patch(String),
    /// A watch that stays open. Each event is an answer.
    Watch(String),
}

#[derive(Default)]
struct Seen {
    /// The answers' descriptions with their numbers: before, during and after the
    /// outage.
    answers: [BTreeMap<String, usize>; 3],
    oldest: Option<u64>,
    slowest: Duration,
    /// The time from the end of the outage to the first answer that is not old.
    current: Option<Duration>,
}

impl Ask {
    async fn run(self, client: &Client, phase: &Mutex<Phase>, mut seen: Seen) -> Seen {
        let mut every = tokio::time::interval(EVERY);
        let (mut watch, mut writes) = (None, 0);
        loop {
            every.tick().await;
            let now = *phase.lock().expect("no panic");
            if matches!(now, Phase::End) {
                return seen;
            }
            let asked = Instant::now();
            let (what, age) = match &self {
                Self::Get(path) => described(client.try_send(Method::GET, path, &[], "")).await,
                Self::Patch(path) => {
                    writes += 1;
                    let change =
                        json!({ "metadata": { "annotations": { "write": writes.to_string() } } });
                    let kind = [("content-type", "application/merge-patch+json")];
                    described(client.try_send(Method::PATCH, path, &kind, change.to_string())).await
                }
                Self::Watch(path) => (heard(client, path, &mut watch).await, None),
            };
            // The answer may have come in another phase.
            let now = *phase.lock().expect("no panic");
            seen.add(now, what, age, asked.elapsed());
        }
    }
}

/// Describes an answer, and returns the age that it states.
async fn described(answer: impl Future<Output = anyhow::Result<Answer>>) -> (String, Option<u64>) {
    match tokio::time::timeout(PATIENCE, answer).await {
        Err(_) => ("no answer".to_owned(), None),
        Ok(Err(_)) => ("broken".to_owned(), None),
        Ok(Ok(answer)) => {
            let age = answer.headers.get("warning").and_then(|warning| {
                let text = warning.to_str().ok()?;
                let end = text.strip_suffix("s ago\"")?;
                end.rsplit(' ').next()?.parse().ok()
            });
            let mut what = answer.status.as_str().to_owned();
            if age.is_some() {
                what.push_str(" with Warning");
            }
            if answer.headers.contains_key("retry-after") {
                what.push_str(" with Retry-After");
            }
            (what, age)
        }
    }
}

/// Describes what a watch brings within a second. Opens one if none is open.
async fn heard(client: &Client, path: &str, watch: &mut Option<Watch>) -> String {
    let Some(open) = watch else {
        return match Watch::try_open(client, &format!("{path}&watch=1")).await {
            Ok(open) => {
                *watch = Some(open);
                "opened".to_owned()
            }
            Err(_) => "not opened".to_owned(),
        };
    };
    let mut events = 0;
    loop {
        match open.next_within(EVERY / 2).await {
            Some(Ok(_)) => events += 1,
            None if events == 0 => return "quiet".to_owned(),
            None => return "events".to_owned(),
            Some(Err(_)) => {
                *watch = None;
                return "ended".to_owned();
            }
        }
    }
}

impl Seen {
    fn add(&mut self, phase: Phase, what: String, age: Option<u64>, took: Duration) {
        let number = match phase {
            Phase::Before => 0,
            Phase::During => 1,
            Phase::After(_) | Phase::End => 2,
        };
        if let (Phase::After(since), None) = (phase, self.current)
            && age.is_none()
            && (what.starts_with("200") || what == "events")
        {
            self.current = Some(since.elapsed());
        }
        self.oldest = self.oldest.max(age);
        if matches!(phase, Phase::During) && what != "quiet" {
            self.slowest = self.slowest.max(took);
        }
        *self.answers[number].entry(what).or_default() += 1;
    }

    fn row(self, name: &str, mode: &str) -> Vec<String> {
        let [before, during, after] = self.answers.map(|answers| {
            let counts = answers.into_iter().map(|(what, n)| format!("{n} {what}"));
            counts.collect::<Vec<_>>().join(", ")
        });
        vec![
            name.to_owned(),
            mode.to_owned(),
            before,
            during,
            self.oldest.map_or(String::new(), |age| format!("{age}s")),
            self.slowest.as_millis().to_string(),
            after,
            self.current
                .map_or("never".to_owned(), |t| format!("{:.1}", t.as_secs_f64())),
        ]
    }
}
