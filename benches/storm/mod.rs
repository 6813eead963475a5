//! Measures what follows when a server goes away and comes back under thousands of
//! clients. Each has an address, a TLS connection, a certificate or a service account's
//! token, and three watches: the pods of its node, services, and endpoint slices. TLS,
//! HTTP/2, JSON.
//!
//! `make bench ARGS='storm --clients 2000 --pods 4000'`, also with `--tokens 1`, and with
//! `--rounds 5` for medians. `--front 3` has only the third way of apifront, after
//! kube-apiserver alone.

mod bystander;
mod client;
mod outcome;
mod tally;

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use self::bystander::Bystander;
use self::client::StormClient;
use self::outcome::{Asked, Storm, Storms};
use self::tally::Tally;
use crate::support::{cores, count, pods, require, usage};
use harness::apifront::{Apifront, upstream_requests};
use harness::client::Client;
use harness::cluster::{Cluster, grant_everywhere};
use harness::objects::cluster_role_binding;
use harness::{certificates::Pair, process};

const ALONE: &str = "kube-apiserver";
const GROUP: &str = "storm";
/// The service whose label shows who is current.
const MARKED: &str = "/api/v1/namespaces/default/services/marked";
const SERVICES: usize = 50;
const FIRST: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 0);
/// Time to settle between storms.
const QUIET: Duration = Duration::from_secs(2);
/// Nothing waits longer than this for all clients.
const PATIENCE: Duration = Duration::from_secs(240);
const RESOURCES: [&str; 3] = ["pods", "services", "endpointslices"];

pub fn main() {
    require(&[("taskset", "util-linux"), ("ss", "iproute2")]);
    crate::support::run(storm());
}

async fn storm() {
    let (clients, most) = (count("clients", 2_000), count("pods", 4_000));
    let rounds = count("rounds", 1);
    let mut cluster = Cluster::start(&["--request-timeout=20m".to_owned()]).await;
    let admin = cluster.admin_client();
    fill(&admin, most, clients).await;
    cores::pin(cluster.apiserver.pid(), cores::SERVER);
    let credentials = match count("tokens", 0) {
        0 => certificates(&cluster, clients),
        _ => tokens(&admin, clients).await,
    };
    cores::pin(std::process::id(), cores::CLIENT);
    let mut storms = Storms::default();
    {
        let server = |pair: Option<&Pair>| cluster.client(pair);
        let herd = Herd::start(&credentials, server).await;
        let bystander = Bystander::start(&cluster.admin_client(), MARKED);
        for _ in 0..rounds {
            storms.add(kill_apiserver(&mut cluster, None, &herd, &bystander).await);
            for &lost in Lost::of_a_server_that_stays(&credentials) {
                storms.add(cut(ALONE, lost, None, &cluster, &herd, &bystander).await);
            }
        }
    }
    let only = count("front", 0);
    let fronts = [
        ("apifront, killed", false, json!({})),
        (
            "apifront, killed; cachedRBAC",
            false,
            json!({ "cachedRBAC": "Allow" }),
        ),
        ("apifront, stopped; saved stores", true, json!({})),
    ];
    for (n, (name, is_saved, authorization)) in (1..).zip(fronts) {
        if only > 0 && n != only {
            continue;
        }
        let stores = process::temporary_folder("stores").join("stores");
        let mut front = Apifront::start(&cluster, |config| {
            config["serving"]["maxConnectionsPerClient"] = json!(0);
            config["authorization"] = authorization;
            if is_saved {
                config["cache"] = json!({ "directory": stores });
            }
        })
        .await;
        cores::pin(front.process.pid(), cores::SERVER);
        let herd = Herd::start(&credentials, |pair| front.client(pair)).await;
        let bystander = Bystander::start(&front.admin_client(), MARKED);
        for _ in 0..rounds {
            storms.add(in_front(name, &mut front, &cluster, is_saved, &herd, &bystander).await);
            for &lost in Lost::of_a_server_that_stays(&credentials) {
                storms.add(cut(name, lost, Some(&front), &cluster, &herd, &bystander).await);
            }
            if is_saved {
                storms.add(kill_apiserver(&mut cluster, Some(&front), &herd, &bystander).await);
            }
        }
        drop((bystander, herd));
        front.stop().await;
    }
    storms.report(clients);
}

async fn fill(admin: &Client, most: usize, nodes: usize) {
    pods::create_on(admin, most, nodes).await;
    let service = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": { "name": name },
            "spec": { "ports": [{ "port": 80 }] },
        })
    };
    let slice = |n: usize| {
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": { "name": format!("slice-{n}") }, "addressType": "IPv4",
            "endpoints": [{ "addresses": [format!("10.1.0.{n}")] }], "ports": [{ "port": 80 }],
        })
    };
    let put = async |path: &str, object: Value| {
        admin.post(path, &object).await.expect(201);
    };
    for n in 0..SERVICES {
        put(
            "/api/v1/namespaces/default/services",
            service(&format!("service-{n}")),
        )
        .await;
        put(
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            slice(n),
        )
        .await;
    }
    put("/api/v1/namespaces/default/services", service("marked")).await;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": GROUP },
        "rules": [{
            "apiGroups": ["", "discovery.k8s.io"], "resources": RESOURCES,
            "verbs": ["list", "watch"],
        }],
    });
    let binding = cluster_role_binding(GROUP, GROUP, "Group", GROUP);
    grant_everywhere(admin, &[role, binding]).await;
}

/// A storm takes one of these from all clients.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lost {
    Server,
    /// Their connections, as when a network fails. They go on with the certificates
    /// that they have, and resume their TLS sessions if the server lets them.
    Connections,
    /// Their connections, and no session can be resumed: their certificates are new.
    Certificates,
}

impl Lost {
    /// Returns what clients can lose while their server stays.
    fn of_a_server_that_stays(credentials: &[Credential]) -> &'static [Self] {
        match credentials.first() {
            Some(Credential::Certificates(_)) => &[Self::Connections, Self::Certificates],
            Some(Credential::Token(_)) | None => &[Self::Connections],
        }
    }

    /// The end of a storm's name.
    fn as_str(self) -> &'static str {
        match self {
            Self::Server => "",
            Self::Connections => "; connections cut",
            Self::Certificates => "; certificates renewed",
        }
    }
}

/// A client shows one of these to the server. Kubelets have certificates, first one and
/// then its renewal, and pods of DaemonSets have tokens.
enum Credential {
    Certificates([Pair; 2]),
    Token(String),
}

impl Credential {
    /// Returns a client, and the one that it becomes when certificates are renewed.
    fn clients(&self, from: IpAddr, server: impl Fn(Option<&Pair>) -> Client) -> [Client; 2] {
        let clients = match self {
            Self::Certificates(pairs) => pairs.each_ref().map(|pair| server(Some(pair))),
            Self::Token(token) => [(); 2].map(|()| server(None).token(token)),
        };
        clients.map(|client| client.connecting_from(from))
    }
}

fn certificates(cluster: &Cluster, clients: usize) -> Vec<Credential> {
    let pairs = |n| {
        let name = format!("client-{n:05}");
        [(); 2].map(|()| cluster.certificates.client(&name, &[GROUP]))
    };
    (0..clients)
        .map(pairs)
        .map(Credential::Certificates)
        .collect()
}

/// Makes a service account for each client.
async fn tokens(admin: &Client, clients: usize) -> Vec<Credential> {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let group = "system:serviceaccounts:default";
    let binding = cluster_role_binding("accounts", GROUP, "Group", group);
    grant_everywhere(admin, &[binding]).await;
    let mut tokens = Vec::new();
    for n in 0..clients {
        let name = format!("client-{n:05}");
        let account = json!({ "metadata": { "name": name } });
        admin.post(accounts, &account).await.expect(201);
        let request = json!({ "spec": { "expirationSeconds": 3600 } });
        let made = admin
            .post(&format!("{accounts}/{name}/token"), &request)
            .await;
        let token = made.expect(201)["status"]["token"].take();
        tokens.push(Credential::Token(
            token.as_str().expect("a token").to_owned(),
        ));
    }
    tokens
}

/// As nodes have them: who waits is who shares an address with many.
fn address(n: usize) -> IpAddr {
    let n = u32::try_from(n).expect("few clients");
    IpAddr::V4(Ipv4Addr::from(u32::from(FIRST) + n))
}

/// All clients of one server.
struct Herd {
    tally: Arc<Tally>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Herd {
    /// Connects all clients, and waits until they have their watches.
    async fn start(
        credentials: &[Credential],
        server: impl Fn(Option<&Pair>) -> Client + Copy,
    ) -> Self {
        let tally = Arc::<Tally>::default();
        let mut tasks = Vec::new();
        for (n, credential) in credentials.iter().enumerate() {
            let servers = credential.clients(address(n), server);
            let client = StormClient::new(servers, tally.clone(), n);
            tasks.push(tokio::spawn(client.live()));
            if n % 50 == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let herd = Self { tally, tasks };
        herd.until("watching", |tally| tally.watching()).await;
        tokio::time::sleep(QUIET).await;
        herd
    }

    async fn until(&self, what: &str, number: impl Fn(&Tally) -> usize) {
        let began = Instant::now();
        while number(&self.tally) < self.tasks.len() {
            assert!(
                began.elapsed() < PATIENCE,
                "{} of {} {what}",
                number(&self.tally),
                self.tasks.len()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Writes a mark when the server of this client answers, and waits until all
    /// clients have seen it.
    async fn settle(&self, mark: usize, writer: &Client) {
        let patch = json!({ "metadata": { "labels": { "storm": mark.to_string() } } });
        let patch = patch.to_string();
        let headers = [("content-type", "application/merge-patch+json")];
        let began = Instant::now();
        loop {
            let writer = writer.separate();
            let answer = writer.try_send(http::Method::PATCH, MARKED, &headers, patch.clone());
            if answer.await.is_ok_and(|answer| answer.status == 200) {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "the server does not come back");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.until("current", |tally| tally.current()).await;
        self.until("watching", |tally| tally.watching()).await;
    }
}

impl Drop for Herd {
    fn drop(&mut self) {
        self.tasks.iter().for_each(|task| task.abort());
    }
}

fn next_mark() -> usize {
    static MARK: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(1);
    MARK.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

fn peak(pid: u32) -> f64 {
    usage::peak_bytes(pid) as f64 / f64::from(1 << 20)
}

/// The part of a storm that is the same everywhere, from when the server is gone.
async fn wait_out(herd: &Herd, mark: usize, gone: Instant, writer: &Client) -> [Vec<f64>; 2] {
    herd.settle(mark, writer).await;
    let times = herd.tally.times();
    [times.back, times.current].map(|times| {
        let since = times.iter().map(|time| (*time - gone).as_secs_f64());
        since.collect()
    })
}

/// Kills kube-apiserver, and starts it again: alone, or behind apifront.
async fn kill_apiserver(
    cluster: &mut Cluster,
    front: Option<&Apifront>,
    herd: &Herd,
    bystander: &Bystander,
) -> Storm {
    let mark = next_mark();
    herd.tally.begin(mark);
    let cpu_of_front = || front.map(|front| usage::cpu_time(front.process.pid()));
    let before = cpu_of_front().unwrap_or_default();
    let asked_before = asked_since(front, &Asked::new()).await;
    let gone = Instant::now();
    cores::pin(std::process::id(), cores::SERVER);
    cluster.apiserver.kill();
    cluster.apiserver.start_again();
    cores::pin(std::process::id(), cores::CLIENT);
    cluster.wait_ready().await;
    let ready = gone.elapsed().as_secs_f64();
    let [back, current] = wait_out(herd, mark, gone, &cluster.admin_client()).await;
    let apiserver = cluster.apiserver.pid();
    let server = front.map_or(apiserver, |front| front.process.pid());
    let cpu = usage::cpu_time(apiserver);
    let asked = asked_since(front, &asked_before).await;
    Storm {
        name: match front {
            None => format!("{ALONE}, killed"),
            Some(_) => format!("apifront, {ALONE} killed"),
        },
        lost: Lost::Server,
        ready,
        back,
        current,
        counts: herd.tally.counts(),
        cpu: cpu_of_front().map_or(cpu, |now| now - before),
        upstream_cpu: front.map(|_| cpu),
        peak_megabytes: peak(server),
        asked,
        bystander: bystander.since(gone),
    }
}

async fn in_front(
    name: &str,
    front: &mut Apifront,
    cluster: &Cluster,
    in_order: bool,
    herd: &Herd,
    bystander: &Bystander,
) -> Storm {
    let mark = next_mark();
    herd.tally.begin(mark);
    let upstream = usage::cpu_time(cluster.apiserver.pid());
    let gone = Instant::now();
    if in_order {
        front.process.signal("TERM");
        front.process.wait(PATIENCE).await;
    }
    cores::pin(std::process::id(), cores::SERVER);
    front.restart_alive().await;
    cores::pin(std::process::id(), cores::CLIENT);
    let ready = gone.elapsed().as_secs_f64();
    let [back, current] = wait_out(herd, mark, gone, &cluster.admin_client()).await;
    let pid = front.process.pid();
    Storm {
        name: name.to_owned(),
        lost: Lost::Server,
        ready,
        back,
        current,
        counts: herd.tally.counts(),
        cpu: usage::cpu_time(pid),
        upstream_cpu: Some(usage::cpu_time(cluster.apiserver.pid()) - upstream),
        peak_megabytes: peak(pid),
        asked: asked_since(Some(front), &Asked::new()).await,
        bystander: bystander.since(gone),
    }
}

/// Resets all clients' connections. The server stays.
async fn cut(
    name: &str,
    lost: Lost,
    front: Option<&Apifront>,
    cluster: &Cluster,
    herd: &Herd,
    bystander: &Bystander,
) -> Storm {
    let mark = next_mark();
    herd.tally.begin(mark);
    let apiserver = cluster.apiserver.pid();
    let (pid, address) = match front {
        None => (apiserver, cluster.apiserver.address()),
        Some(front) => (front.process.pid(), front.address),
    };
    let asked_before = asked_since(front, &Asked::new()).await;
    let before = [pid, apiserver].map(usage::cpu_time);
    if lost == Lost::Certificates {
        herd.tally.renew_certificates();
    }
    let gone = Instant::now();
    let port = address.port().to_string();
    let cut = Command::new("ss")
        .args(["-K", "dst", "127.0.0.1", "dport", "=", &port])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(cut.expect("ss").success());
    let [back, current] = wait_out(herd, mark, gone, &cluster.admin_client()).await;
    let [cpu, upstream_cpu] = [0, 1].map(|n| usage::cpu_time([pid, apiserver][n]) - before[n]);
    let asked = asked_since(front, &asked_before).await;
    Storm {
        name: format!("{name}{}", lost.as_str()),
        lost,
        ready: 0.0,
        back,
        current,
        counts: herd.tally.counts(),
        cpu,
        upstream_cpu: front.map(|_| upstream_cpu),
        peak_megabytes: peak(pid),
        asked,
        bystander: bystander.since(gone),
    }
}

/// Returns the requests to upstream since there were `before`, by kind.
async fn asked_since(front: Option<&Apifront>, before: &Asked) -> Asked {
    let Some(front) = front else {
        return Asked::new();
    };
    let metrics = front.metrics().await;
    let all = upstream_requests(&metrics).into_iter();
    all.map(|(kind, number)| (kind, number - before.get(kind).unwrap_or(&0.0)))
        .collect()
}
