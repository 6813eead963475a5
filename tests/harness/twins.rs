//! The same extension API servers behind two aggregators: kube-apiserver's, which is
//! right, and apifront's, before a cluster that does not know them. Both aggregators
//! reach the same process with the same data, so answers can be compared to the
//! byte.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::apifront::{Apifront, oracle};
use super::backend::{Backend, Mood};
use super::certificates::Pair;
use super::client::Client;
use super::cluster::Cluster;
use super::differential::Differential;
use super::kubeconfig::{self, Credential};
use super::pool::Lease;
use super::shared::Shared;
use super::wardle::{self, Wardle};
use super::{eventually, process};

/// The time until an APIService has its expected condition. A request that
/// hangs is given up after 5 s.
pub const SETTLES_WITHIN: Duration = Duration::from_secs(45);

pub struct Twins {
    pub folder: PathBuf,
    /// The cluster whose kube-apiserver aggregates.
    pub oracle: Lease,
    /// The apifront that aggregates, before [`Cluster::shared`].
    pub front: Apifront,
    /// The authorities that sign the certificates of front proxies.
    pub front_proxies: PathBuf,
    /// The serving certificate of every service in [`NAMESPACE`].
    pub serving: Pair,
}

/// An APIService and the port at which it is served.
#[derive(Clone)]
pub struct Registration {
    pub manifest: Value,
    pub port: u16,
}

impl Registration {
    pub fn new(group: &str, version: &str, service: &str, port: u16) -> Self {
        let manifest = json!({
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": { "name": format!("{version}.{group}") },
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 2000,
                "versionPriority": 200,
                "service": { "name": service, "namespace": NAMESPACE, "port": port },
            },
        });
        Self { manifest, port }
    }

    pub fn name(&self) -> &str {
        self.manifest["metadata"]["name"].as_str().expect("a name")
    }

    pub fn service(&self) -> &str {
        let name = self.manifest["spec"]["service"]["name"].as_str();
        name.expect("a service")
    }

    /// Sets the CA bundle of the APIService. Without one, the system's authorities
    /// would be trusted.
    pub fn trust(mut self, ca: &std::path::Path) -> Self {
        use base64::Engine;
        let pem = std::fs::read(ca).expect("a CA file");
        let text = base64::engine::general_purpose::STANDARD.encode(pem);
        self.manifest["spec"]["caBundle"] = json!(text);
        self
    }

    pub fn backend(&self) -> Value {
        json!({
            "name": self.service(),
            "namespace": NAMESPACE,
            "servers": [format!("https://127.0.0.1:{}", self.port)],
        })
    }
}

pub const NAMESPACE: &str = "extensions";

impl Twins {
    /// Starts a kube-apiserver with an aggregator, and an apifront that has
    /// `registered` in its configuration.
    pub async fn start(registered: impl AsyncFnOnce(&Parts) -> Vec<Registration>) -> Self {
        let folder = process::temporary_folder("twins");
        let oracle = Cluster::leased(&[]).await;
        let shared = Cluster::shared();
        let admin = oracle.admin_client();
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE },
        });
        admin
            .post("/api/v1/namespaces", &namespace)
            .await
            .expect(201);
        let front_proxies = folder.join("front-proxies.crt");
        let pem = [&oracle, shared]
            .map(|c| std::fs::read_to_string(&c.certificates.front_proxy.cert).expect("a CA"));
        std::fs::write(&front_proxies, pem.concat()).expect("a CA file");
        let serving = oracle.certificates.serving_for(
            "extensions",
            &[&format!("*.{NAMESPACE}.svc"), "localhost", "127.0.0.1"],
        );
        let parts = Parts {
            oracle,
            front_proxies,
            serving,
        };
        let registered = registered(&parts).await;
        for registration in &registered {
            register(&parts.oracle.admin_client(), registration).await;
        }
        let front = if oracle_alone() {
            Apifront::start(&parts.oracle, |_| {}).await
        } else {
            let manifests = folder.join("apiservices");
            std::fs::create_dir_all(&manifests).expect("a folder");
            Apifront::start(shared, |config| {
                configure(config, &manifests, &registered);
            })
            .await
        };
        let Parts {
            oracle,
            front_proxies,
            serving,
        } = parts;
        Self {
            folder,
            oracle,
            front,
            front_proxies,
            serving,
        }
    }

    pub fn direct_client(&self) -> Client {
        self.oracle.admin_client()
    }

    pub fn front_client(&self) -> Client {
        self.front.admin_client()
    }

    pub fn differential(&self) -> Differential {
        Differential::new(self.direct_client(), self.front_client())
    }

    pub fn kubeconfigs(&self) -> (PathBuf, PathBuf) {
        (
            self.oracle.admin_kubeconfig.clone(),
            self.front_kubeconfig(),
        )
    }

    fn front_kubeconfig(&self) -> PathBuf {
        let cluster = if oracle_alone() {
            &self.oracle
        } else {
            Cluster::shared()
        };
        kubeconfig::write(
            &self.folder,
            "front",
            &self.front.url(),
            Some(cluster.ca()),
            Credential::Certificate(&cluster.admin),
        )
    }

    /// Returns a client for each aggregator, both with this user and groups.
    pub fn clients_of(&self, user: &str, groups: &[&str]) -> (Client, Client) {
        let of = |cluster: &Cluster| cluster.certificates.client(user, groups);
        let behind = if oracle_alone() {
            &self.oracle
        } else {
            Cluster::shared()
        };
        (
            self.oracle.client(Some(&of(&self.oracle))),
            self.front.client(Some(&of(behind))),
        )
    }

    /// Waits until both aggregators report this availability of an APIService.
    pub async fn settled(&self, name: &str, available: bool) {
        for client in [self.direct_client(), self.front_client()] {
            settled(&client, name, available).await;
        }
    }
}

/// The parts that a registration may need.
pub struct Parts {
    pub oracle: Lease,
    pub front_proxies: PathBuf,
    pub serving: Pair,
}

impl Parts {
    pub fn backend(&self, group: &str, mood: Mood) -> Backend {
        Backend::start(group, &self.serving, &self.front_proxies, mood)
    }

    pub fn ca(&self) -> &std::path::Path {
        self.oracle.ca()
    }
}

/// Tells whether `APIFRONT_TEST_ORACLE` is set. kube-apiserver then takes both
/// places.
pub fn oracle_alone() -> bool {
    oracle()
}

/// Writes the APIServices to files and names these in the configuration.
pub fn configure(config: &mut Value, manifests: &std::path::Path, registered: &[Registration]) {
    for old in std::fs::read_dir(manifests).expect("a folder") {
        let old = old.expect("an entry").path();
        let name = old.file_stem().and_then(|n| n.to_str()).unwrap_or("");
        if !registered.iter().any(|r| r.name() == name) {
            std::fs::remove_file(old).expect("a file");
        }
    }
    for registration in registered {
        let file = manifests.join(format!("{}.yaml", registration.name()));
        let fresh = manifests.join(format!("{}.fresh", registration.name()));
        std::fs::write(&fresh, format!("{:#}\n", registration.manifest)).expect("a manifest");
        std::fs::rename(fresh, file).expect("a manifest");
    }
    let mut backends: Vec<Value> = Vec::new();
    for registration in registered {
        let backend = registration.backend();
        if !backends.contains(&backend) {
            backends.push(backend);
        }
    }
    // These backends show the same to every caller.
    if config["cache"]["aggregated"].is_null() {
        config["cache"]["aggregated"] = json!(["*"]);
    }
    config["aggregation"] = json!({
        "apiServices": [format!("{}/*.yaml", manifests.display())],
        "backends": backends,
    });
}

pub const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

pub async fn register(admin: &Client, registration: &Registration) {
    expose(admin, registration.service()).await;
    admin
        .post(API_SERVICES, &registration.manifest)
        .await
        .expect(201);
}

/// Creates the service if it does not exist. It leads to this machine's loopback, at
/// the port of the APIService, and needs no cluster network.
pub async fn expose(admin: &Client, service: &str) {
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": service },
        "spec": { "type": "ExternalName", "externalName": "localhost" },
    });
    let path = format!("/api/v1/namespaces/{NAMESPACE}/services");
    let made = admin.post(&path, &service).await;
    assert!(made.status == 201 || made.status == 409, "{}", made.text());
}

/// Returns the `Available` condition, if it exists.
pub async fn condition(client: &Client, name: &str) -> Option<Value> {
    let object = client.get(&format!("{API_SERVICES}/{name}")).await;
    let object = object.expect(200);
    let conditions = object["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|c| c["type"] == "Available")
        .cloned()
}

pub async fn settled(client: &Client, name: &str, available: bool) {
    let expected = if available { "True" } else { "False" };
    let what = format!("{name} is available: {expected}");
    eventually(&what, SETTLES_WITHIN, || async {
        let condition = condition(client, name).await;
        condition.is_some_and(|c| c["status"] == expected)
    })
    .await;
}

/// The twins with wardle in both versions.
pub struct WardleTwins {
    pub twins: Twins,
    pub wardle: Wardle,
}

impl WardleTwins {
    pub fn shared() -> Arc<Self> {
        static SHARED: Shared<WardleTwins> = Shared::new();
        SHARED.get(WardleTwins::start)
    }

    pub async fn start() -> Self {
        let mut started = None;
        let twins = Twins::start(async |parts: &Parts| {
            let wardle = Wardle::start(&parts.oracle, &parts.serving, &parts.front_proxies).await;
            let registered = registrations(parts, wardle.port);
            started = Some(wardle);
            registered
        })
        .await;
        for version in ["v1alpha1", "v1beta1"] {
            let name = format!("{version}.{}", wardle::GROUP);
            twins.settled(&name, true).await;
        }
        for client in [twins.direct_client(), twins.front_client()] {
            documented(&client).await;
        }
        Self {
            twins,
            wardle: started.expect("started above"),
        }
    }

    pub async fn namespace(&self, purpose: &str) -> String {
        let name = Cluster::shared().namespace(purpose).await;
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
        });
        let admin = self.twins.direct_client();
        let made = admin.post("/api/v1/namespaces", &namespace).await;
        assert!(made.status == 201 || made.status == 409, "{}", made.text());
        name
    }
}

/// Waits until discovery and OpenAPI name both versions. An aggregator fetches
/// both documents when the APIService appears, and again later if that failed.
async fn documented(client: &Client) {
    const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let versions = ["v1alpha1", "v1beta1"];
    eventually("discovery tells of flunders", SETTLES_WITHIN, || async {
        let document = client.get_as("/apis", AGGREGATED).await.expect(200);
        let groups = document["items"].as_array().expect("groups").iter();
        let mut ours = groups.filter(|g| g["metadata"]["name"] == wardle::GROUP);
        let told = ours.next().map(|group| group["versions"].clone());
        let told = told.and_then(|versions| versions.as_array().cloned());
        told.is_some_and(|told| {
            told.len() == versions.len()
                && told
                    .iter()
                    .all(|v| v["resources"].to_string().contains("\"flunders\""))
        })
    })
    .await;
    for path in ["/openapi/v3", "/openapi/v2"] {
        eventually(&format!("{path} tells of it"), SETTLES_WITHIN, || async {
            let document = client.get(path).await.expect(200);
            let paths = document["paths"].to_string();
            let told = |version| paths.contains(&format!("{}/{version}", wardle::GROUP));
            versions.into_iter().all(told)
        })
        .await;
    }
}

/// Registers both versions like sample-apiserver's own manifests.
pub fn registrations(parts: &Parts, port: u16) -> Vec<Registration> {
    ["v1alpha1", "v1beta1"]
        .map(|version| Registration::new(wardle::GROUP, version, "wardle", port).trust(parts.ca()))
        .to_vec()
}
