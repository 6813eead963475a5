//! Clients get newer features before an API server that lacks them: WatchList
//! (KEP-3157), consistent lists from the cache (KEP-2340), lists at exact versions
//! from the cache (KEP-4988), streamed lists (KEP-5116) and aggregated discovery
//! (KEP-3352). The features are switched off as far as the release under test
//! allows. The same release with the features, on the same etcd, gives the right
//! answers.

mod client_go;
mod consistent;
mod discovery;
mod lists;
mod watch_list;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

use crate::harness::apifront::Apifront;
use crate::harness::apiserver::KubeApiserver;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::media_types::JSON;
use crate::harness::objects::{config_map, pod, widget, widget_definition};
use crate::harness::release::Release;
use crate::harness::shared::Shared;

const GROUP: &str = "old.test";
const NAMESPACE: &str = "old";
const OBJECTS: usize = 5;
const SOON: Duration = Duration::from_secs(120);
/// The parameters of a client that asks for WatchList.
const SEND: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                    &allowWatchBookmarks=true";

/// Two servers on one etcd, and an apifront before the one without the features.
struct World {
    cluster: Cluster,
    newer: KubeApiserver,
    front: Apifront,
}

/// The servers, for one test until this is dropped.
struct Alone {
    _turn: MutexGuard<'static, ()>,
    world: Arc<World>,
}

impl Deref for Alone {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl World {
    fn shared() -> Arc<Self> {
        static SHARED: Shared<World> = Shared::new();
        SHARED.get(Self::start)
    }

    /// Waits until no other test uses the servers, since tests count objects and
    /// requests.
    async fn alone() -> Alone {
        static TURN: Mutex<()> = Mutex::const_new(());
        Alone {
            _turn: TURN.lock().await,
            world: Self::shared(),
        }
    }

    async fn start() -> Self {
        let gates = |gates: &str| [format!("--feature-gates={gates}")];
        let (off, on) = Release::under_test().newer_features();
        let cluster = Cluster::start(&gates(&off)).await;
        let folder = cluster.folder.join("newer");
        std::fs::create_dir_all(&folder).expect("folder");
        let (etcd, certificates) = (&cluster.etcd, &cluster.certificates);
        let kubelet_client = certificates.client("kubelet-client", &[]);
        let newer = KubeApiserver::start(&folder, etcd, certificates, &kubelet_client, &gates(&on));
        fill(&cluster.admin_client()).await;
        let front = Apifront::start(&cluster, |_| {}).await;
        let world = Self {
            cluster,
            newer,
            front,
        };
        for path in LISTS {
            world.serves(&world.newer(), path).await;
        }
        world
    }

    /// Returns the administrator's client of the server with the features.
    fn newer(&self) -> Client {
        let admin = Some(&self.cluster.admin);
        Client::tls(self.newer.address(), self.cluster.ca(), admin)
    }

    /// Returns the administrator's client of the server without the features.
    fn old(&self) -> Client {
        self.cluster.admin_client()
    }

    async fn serves(&self, client: &Client, path: &str) {
        eventually("all objects", SOON, || async {
            let client = client.separate();
            let got = client.try_send(Method::GET, path, &[], "").await;
            let list: Option<Value> = got.ok().and_then(|a| serde_json::from_slice(&a.body).ok());
            let items = list.as_ref().and_then(|list| list["items"].as_array());
            items.is_some_and(|items| items.len() >= OBJECTS)
        })
        .await;
    }
}

/// Lists with objects: of a kind whose bookmark has fields, of a kind whose bookmark
/// has none, of a cluster-wide kind, and of a custom one.
const LISTS: [&str; 4] = [
    "/api/v1/namespaces/old/pods",
    "/api/v1/namespaces/old/configmaps",
    "/api/v1/nodes",
    "/apis/old.test/v1/widgets",
];

async fn fill(admin: &Client) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin
        .post(path, &widget_definition(GROUP))
        .await
        .expect(201);
    let widgets = format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets");
    eventually("served widgets", SOON, || async {
        admin.get(&widgets).await.status == 200
    })
    .await;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
    });
    admin
        .post("/api/v1/namespaces", &namespace)
        .await
        .expect(201);
    for n in 0..OBJECTS {
        let labels = json!({ "parity": if n % 2 == 0 { "even" } else { "odd" } });
        let name = format!("object-{n}");
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels },
        });
        for (path, object) in [
            (LISTS[0], pod(&name, labels.clone())),
            (LISTS[1], config_map(&name, labels.clone(), json!({}))),
            (LISTS[2], node),
            (&widgets, widget(GROUP, &name, "red", 1)),
        ] {
            admin.post(path, &object).await.expect(201);
        }
    }
}

fn version_of(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.expect("a version").parse().expect("a number")
}
