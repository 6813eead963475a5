//! Changes everything that can change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use harness::apifront::Apifront;
use harness::certificates::Pair;
use harness::client::{Client, Protocol};
use harness::cluster::{Cluster, create_namespace_named};
use harness::objects::{config_map, widget_definition};
use harness::watch::Watch;

const WATCHERS: usize = 30;
const READERS: usize = 6;
const WRITERS: usize = 2;
const NAMESPACES: usize = 5;
const NAMES: usize = 100;
/// Definitions come and go under the same names, as when operators are reinstalled.
const DEFINITIONS: usize = 3;
const DEFINITIONS_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const MERGE: [(&str, &str); 1] = [("content-type", "application/merge-patch+json")];

const ACCEPTS: [&str; 6] = [
    "application/json",
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
];

/// How often each kind of action was done.
#[derive(Debug, Default)]
struct Done {
    writes: AtomicUsize,
    reads: AtomicUsize,
    watches: AtomicUsize,
    connections: AtomicUsize,
    definitions: AtomicUsize,
    configurations: AtomicUsize,
}

pub struct Churn {
    front: Arc<Apifront>,
    seed: u64,
    /// Certificates of users who may do everything.
    users: Vec<Pair>,
    serving: [Pair; 2],
    done: Done,
}

impl Churn {
    pub async fn new(cluster: &Cluster, front: Arc<Apifront>, seed: u64) -> Arc<Self> {
        let admin = cluster.admin_client();
        for n in 0..NAMESPACES {
            create_namespace_named(&admin, &namespace(n)).await;
        }
        let certificates = &cluster.certificates;
        let user = |n: usize| certificates.client(&format!("user-{n}"), &["system:masters"]);
        Arc::new(Self {
            front,
            seed,
            users: (0..4).map(user).collect(),
            serving: ["one", "two"].map(|file| certificates.another_serving(file)),
            done: Done::default(),
        })
    }

    /// Returns a client of one of the users, on its own connection.
    pub fn client(&self, n: usize) -> Client {
        self.done.connections.fetch_add(1, Ordering::Relaxed);
        self.front.client(Some(&self.users[n % self.users.len()]))
    }

    pub fn start(self: &Arc<Self>, stop: &Arc<AtomicBool>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for n in 0..WRITERS {
            tasks.spawn(self.clone().write(self.rng(n), stop.clone()));
        }
        for n in 0..READERS {
            tasks.spawn(self.clone().read(self.rng(100 + n), stop.clone()));
        }
        for n in 0..WATCHERS {
            tasks.spawn(self.clone().watch(self.rng(200 + n), stop.clone()));
        }
        tasks.spawn(self.clone().define(stop.clone()));
        tasks.spawn(self.clone().configure(stop.clone()));
        tasks
    }

    pub fn done(&self) -> String {
        format!("{:?}", self.done)
    }

    fn rng(&self, n: usize) -> StdRng {
        StdRng::seed_from_u64(self.seed.wrapping_add(n as u64))
    }

    /// Creates, changes and deletes objects. Writes may fail, since kube-apiserver
    /// is sometimes down.
    async fn write(self: Arc<Self>, mut rng: StdRng, stop: Arc<AtomicBool>) {
        let client = self.client(rng.random_range(0..4));
        let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces";
        while !stop.load(Ordering::Relaxed) {
            let ns = namespace(rng.random_range(0..NAMESPACES));
            if rng.random_range(0..20) == 0 {
                let path = format!("/api/v1/namespaces/{ns}");
                let labels = json!({ "n": rng.random::<u32>().to_string() });
                let change = json!({ "metadata": { "labels": labels } }).to_string();
                let _answer = client.try_send(Method::PATCH, &path, &MERGE, change).await;
            }
            let name = format!("object-{}", rng.random_range(0..NAMES));
            let (list, new) = match rng.random_range(0..8) {
                0 => (
                    format!("{roles}/{ns}/roles"),
                    json!({
                        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                        "metadata": { "name": name }, "rules": [],
                    }),
                ),
                _ => {
                    let data = json!({ "data": "x".repeat(rng.random_range(10..2000)) });
                    let labels = json!({ "parity": if rng.random() { "odd" } else { "even" } });
                    (
                        format!("/api/v1/namespaces/{ns}/configmaps"),
                        config_map(&name, labels, data),
                    )
                }
            };
            let path = format!("{list}/{name}");
            let _answer = match rng.random_range(0..10) {
                0..4 => {
                    client
                        .try_send(Method::POST, &list, &JSON, new.to_string())
                        .await
                }
                4..8 => {
                    let labels = json!({ "n": rng.random::<u32>().to_string() });
                    let change = json!({ "metadata": { "labels": labels } }).to_string();
                    client.try_send(Method::PATCH, &path, &MERGE, change).await
                }
                _ => client.try_send(Method::DELETE, &path, &[], "").await,
            };
            self.done.writes.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Lists and gets in all shapes, sometimes over a new connection.
    async fn read(self: Arc<Self>, mut rng: StdRng, stop: Arc<AtomicBool>) {
        let mut client = self.client(0);
        while !stop.load(Ordering::Relaxed) {
            if rng.random_range(0..4) == 0 {
                client = self.any_client(&mut rng);
            }
            let accept = ACCEPTS.choose(&mut rng).expect("one");
            let gzip = ["identity", "gzip"].choose(&mut rng).expect("one");
            let headers = [("accept", *accept), ("accept-encoding", *gzip)];
            let queries = [
                "",
                "?resourceVersion=0",
                "?limit=20",
                "?labelSelector=parity%3Dodd",
            ];
            let query = queries.choose(&mut rng).expect("one");
            let path = format!("{}{query}", any_list(&mut rng));
            let _answer = client.try_send(Method::GET, &path, &headers, "").await;
            self.done.reads.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(rng.random_range(1..50))).await;
        }
    }

    /// Opens watches, and drops them or lets them end.
    async fn watch(self: Arc<Self>, mut rng: StdRng, stop: Arc<AtomicBool>) {
        let mut client = self.any_client(&mut rng);
        while !stop.load(Ordering::Relaxed) {
            if rng.random_range(0..3) == 0 {
                client = self.any_client(&mut rng);
            }
            // The last media type is for lists only.
            let accept = ACCEPTS[..5].choose(&mut rng).expect("one");
            let options = [
                "&resourceVersion=0",
                "",
                "&allowWatchBookmarks=true",
                "&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
            ];
            let path = format!(
                "{}?watch=1&timeoutSeconds={}{}",
                any_list(&mut rng),
                rng.random_range(1..60),
                options.choose(&mut rng).expect("one"),
            );
            let wanted = client.clone().with_header("accept", accept);
            let stays = Duration::from_millis(rng.random_range(10..20_000));
            if let Ok(open) = wanted
                .try_open(Method::GET, &path, &[], bytes::Bytes::new())
                .await
            {
                let mut body = open.into_body();
                let read = async {
                    use http_body_util::BodyExt;
                    while let Some(Ok(_)) = body.frame().await {}
                };
                let stopped = async {
                    while !stop.load(Ordering::Relaxed) {
                        tokio::time::sleep(Duration::from_millis(200)).await;
                    }
                };
                tokio::select! {
                    () = read => {}
                    () = stopped => {}
                    () = tokio::time::sleep(stays) => {}
                }
            } else {
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            self.done.watches.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Defines custom resources, uses them and removes them.
    async fn define(self: Arc<Self>, stop: Arc<AtomicBool>) {
        let client = self.client(1);
        for n in 0.. {
            let group = format!("soak-{}.test", n % DEFINITIONS);
            let definition = widget_definition(&group).to_string();
            let made = client.try_send(Method::POST, DEFINITIONS_PATH, &JSON, definition);
            let _made = made.await;
            let list = format!("/apis/{group}/v1/widgets");
            for name in 0..20 {
                let widget = json!({
                    "apiVersion": format!("{group}/v1"), "kind": "Widget",
                    "metadata": { "name": format!("widget-{name}") },
                    "spec": { "color": "red", "size": name },
                });
                let path = format!("/apis/{group}/v1/namespaces/{}/widgets", namespace(0));
                let _made = client
                    .try_send(Method::POST, &path, &JSON, widget.to_string())
                    .await;
                let _read = client.try_send(Method::GET, &list, &[], "").await;
                pause(&stop, Duration::from_millis(200)).await;
            }
            let path = format!("{list}?watch=1&resourceVersion=0");
            let watched = Watch::try_open(&client, &path).await;
            pause(&stop, Duration::from_secs(2)).await;
            drop(watched);
            let path = format!("{DEFINITIONS_PATH}/widgets.{group}");
            let _gone = client.try_send(Method::DELETE, &path, &[], "").await;
            self.done.definitions.fetch_add(1, Ordering::Relaxed);
            pause(&stop, Duration::from_secs(3)).await;
            if stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// Alternates between two configurations and two certificates. Sometimes writes
    /// a wrong configuration.
    async fn configure(self: Arc<Self>, stop: Arc<AtomicBool>) {
        let good = self.front.read_config();
        for n in 0_usize.. {
            pause(&stop, Duration::from_secs(7)).await;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let mut config = good.clone();
            let serving = &self.serving[n % 2];
            config["serving"]["tlsCertFile"] = json!(serving.cert);
            config["serving"]["tlsPrivateKeyFile"] = json!(serving.key);
            if n % 3 == 0 {
                config["cache"]["exclude"] = json!(["roles.rbac.authorization.k8s.io"]);
            }
            if n % 5 == 0 {
                config["cache"] = Value::from("wrong");
            }
            self.front.write_config(&config);
            self.done.configurations.fetch_add(1, Ordering::Relaxed);
        }
        self.front.write_config(&good);
    }

    fn any_client(&self, rng: &mut StdRng) -> Client {
        let client = self.client(rng.random_range(0..4));
        match rng.random_range(0..4) {
            0 => client.over(Protocol::Http1),
            _ => client,
        }
    }
}

fn namespace(n: usize) -> String {
    format!("soak-{n}")
}

fn any_list(rng: &mut StdRng) -> String {
    let ns = namespace(rng.random_range(0..NAMESPACES));
    match rng.random_range(0..8) {
        0 => "/api/v1/configmaps".to_owned(),
        1 => "/api/v1/namespaces".to_owned(),
        2 => "/api/v1/secrets".to_owned(),
        3 => "/apis/rbac.authorization.k8s.io/v1/roles".to_owned(),
        4 => "/apis/rbac.authorization.k8s.io/v1/clusterroles".to_owned(),
        5 => format!(
            "/apis/soak-{}.test/v1/widgets",
            rng.random_range(0..DEFINITIONS)
        ),
        6 => format!(
            "/api/v1/namespaces/{ns}/configmaps/object-{}",
            rng.random_range(0..NAMES)
        ),
        _ => format!("/api/v1/namespaces/{ns}/configmaps"),
    }
}

async fn pause(stop: &AtomicBool, length: Duration) {
    let step = Duration::from_millis(100);
    let mut waited = Duration::ZERO;
    while waited < length && !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(step).await;
        waited += step;
    }
}
