//! Shards of lists and watches (KEP-5866) before an API server that does not serve
//! them: `cache.shardedListAndWatch: Always`. kube-apiserver with the feature gate,
//! on the same etcd, gives the right answers.

mod reads;
mod refusals;
mod selectors;
mod watches;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::harness::apifront::Apifront;
use crate::harness::apiserver::KubeApiserver;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::objects::{config_map, widget_definition};
use crate::harness::shared::Shared;

const GATE: &str = "--feature-gates=ShardedListAndWatch=true";
const GROUP: &str = "sharded.test";
const NAMESPACES: usize = 6;
const OBJECTS: usize = 60;
const SOON: Duration = Duration::from_secs(120);

/// Two servers on one etcd, and an apifront before the one without shards.
struct World {
    cluster: Cluster,
    with_shards: KubeApiserver,
    front: Apifront,
    /// Locked by tests whose answers would differ if others wrote.
    writers: RwLock<()>,
}

impl World {
    fn shared() -> Arc<Self> {
        static SHARED: Shared<World> = Shared::new();
        SHARED.get(Self::start)
    }

    async fn start() -> Self {
        let cluster = Cluster::start(&[]).await;
        let folder = cluster.folder.join("with-shards");
        std::fs::create_dir_all(&folder).expect("folder");
        let (etcd, certificates) = (&cluster.etcd, &cluster.certificates);
        let kubelet_client = certificates.client("kubelet-client", &[]);
        let flags = [GATE.to_owned()];
        let with_shards =
            KubeApiserver::start(&folder, etcd, certificates, &kubelet_client, &flags);
        fill(&cluster.admin_client()).await;
        let front = Apifront::start(&cluster, always).await;
        let world = Self {
            cluster,
            with_shards,
            front,
            writers: RwLock::default(),
        };
        let widgets = format!("/apis/{GROUP}/v1/widgets");
        let config_maps = "/api/v1/configmaps";
        let list = world
            .cluster
            .admin_client()
            .get(config_maps)
            .await
            .expect(200);
        let all = list["items"].as_array().expect("items").len();
        let client = world.front.admin_client();
        for (path, count) in [
            (config_maps, all),
            (&widgets, OBJECTS),
            ("/api/v1/nodes", OBJECTS),
        ] {
            let path = format!("{path}?resourceVersion=0");
            world.serves(&world.direct(), &path, count).await;
            world.front.warm(&client, &path).await;
        }
        world
    }

    /// Keeps other tests from writing.
    async fn still(&self) -> RwLockReadGuard<'_, ()> {
        self.writers.read().await
    }

    /// Keeps other tests from writing and comparing.
    async fn changing(&self) -> RwLockWriteGuard<'_, ()> {
        self.writers.write().await
    }

    /// Returns the administrator's client of the server with shards.
    fn direct(&self) -> Client {
        let admin = Some(&self.cluster.admin);
        Client::tls(self.with_shards.address(), self.cluster.ca(), admin)
    }

    async fn serves(&self, client: &Client, path: &str, count: usize) {
        eventually("all objects", SOON, || async {
            let client = client.separate();
            let got = client.try_send(Method::GET, path, &[], "").await;
            let list: Option<Value> = got.ok().and_then(|a| serde_json::from_slice(&a.body).ok());
            let items = list.as_ref().and_then(|list| list["items"].as_array());
            items.is_some_and(|items| items.len() == count)
        })
        .await;
    }
}

/// Makes apifront serve shards itself.
fn always(config: &mut Value) {
    config["cache"]["shardedListAndWatch"] = json!("Always");
}

/// Creates objects of a built-in kind, of a custom kind, and of a cluster-wide kind.
async fn fill(admin: &Client) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin
        .post(path, &widget_definition(GROUP))
        .await
        .expect(201);
    let widgets = format!("/apis/{GROUP}/v1/namespaces/default/widgets");
    eventually("served widgets", SOON, || async {
        admin.get(&widgets).await.status == 200
    })
    .await;
    for n in 0..NAMESPACES {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": format!("space-{n}") },
        });
        admin
            .post("/api/v1/namespaces", &namespace)
            .await
            .expect(201);
    }
    for n in 0..OBJECTS {
        let namespace = format!("space-{}", n % NAMESPACES);
        let labels = json!({ "parity": if n % 2 == 0 { "even" } else { "odd" } });
        let object = config_map(&format!("object-{n}"), labels.clone(), json!({}));
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        admin.post(&path, &object).await.expect(201);
        let widget = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Widget",
            "metadata": { "name": format!("widget-{n}"), "labels": labels },
            "spec": { "color": "red", "size": n },
        });
        let path = format!("/apis/{GROUP}/v1/namespaces/{namespace}/widgets");
        admin.post(&path, &widget).await.expect(201);
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": format!("node-{n}"), "labels": labels },
        });
        admin.post("/api/v1/nodes", &node).await.expect(201);
    }
}

/// Returns the text as the value of a query parameter.
fn escaped(text: &str) -> String {
    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
