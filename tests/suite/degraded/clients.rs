//! Counts the answers that clients of a cluster get in an outage, with degraded mode
//! and without.
//!
//! `APIFRONT_TEST_OUTAGE_SECONDS` is the length of the outage. The test prints a
//! table of all answers (`--nocapture`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::world::becomes;
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::objects::{cluster_role_binding, config_map, pod_on_node};
use crate::harness::watch::Watch;

const OUTAGE_SECONDS: u64 = 20;
/// The time before and after the outage.
const CALM: Duration = Duration::from_secs(10);
const EACH: Duration = Duration::from_millis(250);
const NODE: &str = "node-1";
const SOON: Duration = Duration::from_secs(60);

const BEFORE: usize = 0;
/// From the loss of the server to the start of degraded mode.
const BEGINNING: usize = 1;
const OUTAGE: usize = 2;
/// From the start of the server to the end of degraded mode.
const RETURN: usize = 3;
const AFTER: usize = 4;
const PHASES: [&str; 5] = ["before", "first seconds", "outage", "return", "after"];

#[derive(Default)]
struct Seen {
    /// Answers by the class of their status; 0 if there was none.
    answers: BTreeMap<u16, usize>,
    milliseconds: Vec<f64>,
}

/// The answers by front, client and phase.
type Table = Mutex<BTreeMap<(&'static str, &'static str, usize), Seen>>;

struct Run {
    table: Table,
    phase: AtomicUsize,
}

const OVER: usize = usize::MAX;

impl Run {
    fn note(
        &self,
        front: &'static str,
        client: &'static str,
        phase: usize,
        code: u16,
        took: Duration,
    ) {
        let mut table = self.table.lock();
        let seen = table.entry((front, client, phase)).or_default();
        *seen.answers.entry(code / 100 * 100).or_default() += 1;
        seen.milliseconds.push(took.as_secs_f64() * 1000.0);
    }

    fn set(&self, phase: usize) {
        self.phase.store(phase, Ordering::SeqCst);
    }

    fn phase(&self) -> usize {
        self.phase.load(Ordering::SeqCst)
    }

    /// Sends the request repeatedly until the run is over.
    async fn repeat(
        self: Arc<Self>,
        front: &'static str,
        name: &'static str,
        client: Client,
        method: Method,
        path: String,
        body: Option<Value>,
    ) {
        let mut number = 0;
        while self.phase() != OVER {
            let phase = self.phase();
            let mut body = body.clone().unwrap_or_default();
            if method == Method::POST {
                number += 1;
                body["metadata"]["name"] = json!(format!("{front}-{number}").replace(' ', "-"));
            }
            let asked = Instant::now();
            let headers = [("content-type", "application/json")];
            let text = if body.is_null() {
                String::new()
            } else {
                body.to_string()
            };
            let answer = client.try_send(method.clone(), &path, &headers, text).await;
            let code = answer.map_or(0, |answer| answer.status.as_u16());
            // A request that spans two phases counts for neither.
            if self.phase() == phase {
                self.note(front, name, phase, code, asked.elapsed());
            }
            crate::harness::pace::of_load(EACH).await;
        }
    }

    /// Keeps a watch open, and counts each start as a request.
    async fn watch(
        self: Arc<Self>,
        front: &'static str,
        name: &'static str,
        client: Client,
        path: String,
    ) {
        while self.phase() != OVER {
            let (phase, asked) = (self.phase(), Instant::now());
            let opened = Watch::try_open(&client, &path).await;
            let code = if opened.is_ok() { 200 } else { 500 };
            self.note(front, name, phase, code, asked.elapsed());
            if let Ok(mut watch) = opened {
                while self.phase() != OVER && !matches!(watch.next_within(EACH).await, Some(Err(_)))
                {
                }
            }
            crate::harness::pace::of_load(EACH).await;
        }
    }

    fn print(&self) {
        println!(
            "| {:<13} | {:<22} | {:<13} | {:>5} | {:>5} | {:>5} | {:>4} | {:>8} |",
            "apifront", "client", "phase", "200", "4xx", "5xx", "none", "p99 ms"
        );
        for ((front, client, phase), seen) in &*self.table.lock() {
            let count = |class| seen.answers.get(&class).copied().unwrap_or_default();
            let mut all = seen.milliseconds.clone();
            all.sort_by(f64::total_cmp);
            let p99 = all[(all.len() - 1) * 99 / 100];
            println!(
                "| {front:<13} | {client:<22} | {:<13} | {:>5} | {:>5} | {:>5} | {:>4} | {p99:>8.1} |",
                PHASES[*phase],
                count(200),
                count(400),
                count(500),
                count(0)
            );
        }
    }

    /// Returns the answers of a client in the outage, by class.
    fn outage(&self, front: &'static str, client: &'static str) -> BTreeMap<u16, usize> {
        let table = self.table.lock();
        let seen = table.get(&(front, client, OUTAGE));
        seen.map(|seen| seen.answers.clone()).unwrap_or_default()
    }
}

async fn fill(cluster: &Cluster) -> String {
    let admin = cluster.admin_client();
    for n in 0..30 {
        let pod = pod_on_node(&format!("pod-{n}"), json!({}), &format!("node-{}", n % 3));
        admin
            .post("/api/v1/namespaces/default/pods", &pod)
            .await
            .expect(201);
    }
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "reads"}, "rules": [{
        "apiGroups": ["", "discovery.k8s.io"],
        "resources": ["pods", "services", "endpointslices", "configmaps"],
        "verbs": ["get", "list", "watch", "create"],
    }]});
    admin
        .post(&format!("{rbac}/clusterroles"), &role)
        .await
        .expect(201);
    for (name, kind, subject) in [
        ("nodes", "Group", "system:nodes"),
        ("accounts", "Group", "system:serviceaccounts:default"),
        ("stranger", "User", "stranger"),
        ("writer", "User", "writer"),
    ] {
        let binding = cluster_role_binding(&format!("reads-{name}"), "reads", kind, subject);
        admin
            .post(&format!("{rbac}/clusterrolebindings"), &binding)
            .await
            .expect(201);
    }
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"metadata": {"name": "ingress"}});
    admin.post(accounts, &account).await.expect(201);
    let request = json!({"spec": {"expirationSeconds": 7200}});
    let made = admin
        .post(&format!("{accounts}/ingress/token"), &request)
        .await;
    made.expect(201)["status"]["token"]
        .as_str()
        .expect("a token")
        .to_owned()
}

async fn start(
    run: &Arc<Run>,
    cluster: &Cluster,
    name: &'static str,
    front: &Apifront,
    token: &str,
) {
    let kubelet = cluster
        .certificates
        .client(&format!("system:node:{NODE}"), &["system:nodes"]);
    let kubelet = front.client(Some(&kubelet));
    let ingress = front.client(None).token(token);
    let certified = |user| front.client(Some(&cluster.certificates.client(user, &[])));
    let pods = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{NODE}");
    let services = "/api/v1/services".to_owned();
    let slices = "/apis/discovery.k8s.io/v1/endpointslices".to_owned();
    let maps = "/api/v1/namespaces/default/configmaps".to_owned();
    let get = Method::GET;
    for (client, path) in [
        (&kubelet, &pods),
        (&ingress, &services),
        (&ingress, &slices),
    ] {
        eventually("the client may read", SOON, || async {
            client.get(path).await.status == 200
        })
        .await;
        front.warm(client, path).await;
    }
    let of = |client: &Client| client.separate();
    let list = |client: &'static str, by: &Client, path: &str| {
        tokio::spawn(
            run.clone()
                .repeat(name, client, of(by), get.clone(), path.to_owned(), None),
        );
    };
    list("kubelet LIST own pods", &kubelet, &pods);
    list("ingress LIST services", &ingress, &services);
    list("ingress LIST slices", &ingress, &slices);
    list("stranger LIST services", &certified("stranger"), &services);
    let writer = certified("writer");
    let object = Some(config_map("x", json!({}), json!({})));
    tokio::spawn(
        run.clone()
            .repeat(name, "writer POST", of(&writer), Method::POST, maps, object),
    );
    for (client, by, path) in [
        (
            "kubelet WATCH",
            &kubelet,
            format!("{pods}&watch=1&timeoutSeconds=7"),
        ),
        (
            "ingress WATCH",
            &ingress,
            format!("{services}?watch=1&timeoutSeconds=7"),
        ),
    ] {
        tokio::spawn(run.clone().watch(name, client, of(by), path));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_as_clients_see_it() {
    skip_under_oracle!("it stops the API server behind apifront");
    let lasts = std::env::var("APIFRONT_TEST_OUTAGE_SECONDS");
    let lasts = lasts.map_or(OUTAGE_SECONDS, |text| text.parse().expect("seconds"));
    let mut cluster = Cluster::leased(&[]).await;
    let token = fill(&cluster).await;
    let on = Apifront::start(&cluster, |config| {
        config["cache"]["degraded"] = json!({
            "reads": [
                {"resources": ["pods"], "groups": ["system:nodes"]},
                {"resources": ["services", "endpointslices.discovery.k8s.io"],
                 "users": ["system:serviceaccount:default:ingress"]},
            ],
            "after": "2s",
            "maxAge": "30m",
        });
    })
    .await;
    let off = Apifront::start(&cluster, |_| {}).await;
    let run = Arc::new(Run {
        table: Table::default(),
        phase: AtomicUsize::new(BEFORE),
    });
    for (name, front) in [("degraded mode", &on), ("without", &off)] {
        start(&run, &cluster, name, front, &token).await;
    }
    crate::harness::pace::lasting(CALM).await;
    run.set(BEGINNING);
    cluster.apiserver.kill();
    becomes(&on, 1.0).await;
    run.set(OUTAGE);
    crate::harness::pace::lasting(Duration::from_secs(lasts)).await;
    run.set(RETURN);
    cluster.apiserver.start_again();
    cluster.wait_ready().await;
    becomes(&on, 0.0).await;
    run.set(AFTER);
    crate::harness::pace::lasting(CALM).await;
    run.set(OVER);
    println!(
        "an outage of {lasts} s, each client asks every {} ms",
        EACH.as_millis()
    );
    run.print();

    for client in [
        "kubelet LIST own pods",
        "ingress LIST services",
        "ingress LIST slices",
    ] {
        let answers = run.outage("degraded mode", client);
        assert_eq!(
            answers.keys().copied().collect::<Vec<_>>(),
            [200],
            "{client}"
        );
        let answers = run.outage("without", client);
        assert_eq!(
            answers.keys().copied().collect::<Vec<_>>(),
            [500],
            "{client}"
        );
    }
    for client in ["kubelet WATCH", "ingress WATCH"] {
        let answers = run.outage("degraded mode", client);
        assert!(!answers.contains_key(&500), "{client}: {answers:?}");
    }
    for client in ["stranger LIST services", "writer POST"] {
        for front in ["degraded mode", "without"] {
            let answers = run.outage(front, client);
            assert_eq!(
                answers.keys().copied().collect::<Vec<_>>(),
                [500],
                "{client}"
            );
        }
    }
}
