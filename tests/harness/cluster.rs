//! A cluster: etcd, kube-apiserver and their certificates. All tests of a
//! binary share one cluster; tests that disturb others have one alone.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use super::apiserver::KubeApiserver;
use super::certificates::{Certificates, Pair};
use super::client::Client;
use super::etcd::Etcd;
use super::kubeconfig::{self, Credential};
use super::release::Release;
use super::{bootstrap_roles, flow_names, objects, process, read_only, sample, shared};

/// kube-apiserver takes 5 s to start alone, and several times that on a busy
/// machine.
const READY_WITHIN: Duration = Duration::from_secs(120);

static SHARED: Once<Cluster> = Once::new();

pub struct Cluster {
    pub folder: PathBuf,
    pub certificates: Certificates,
    pub etcd: Etcd,
    pub apiserver: KubeApiserver,
    /// The certificate of `kubernetes-admin` in `system:masters`.
    pub admin: Pair,
    /// The user as whom apifront calls the API server. Its rights are those of
    /// [`front_role`].
    pub front: Pair,
    pub admin_kubeconfig: PathBuf,
    pub front_kubeconfig: PathBuf,
}

impl Cluster {
    pub fn shared() -> &'static Cluster {
        once(&SHARED, || Cluster::start(&[]))
    }

    /// Fails for a list of a whole resource of the shared cluster. Other tests write
    /// there at the same time, so two answers would differ by chance. A test that
    /// compares whole lists leases a cluster or asks [`Cluster::quiet`].
    pub fn refuse_whole_list(server: SocketAddr, method: &Method, target: &str) {
        let Some(Ok(shared)) = SHARED.get() else {
            return;
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        // A resource that a test defines, or that does not exist, has a name like
        // these.
        let is_own = path.contains("example.") || path.contains('%');
        let is_whole = matches!(segments[..], ["api", _, _] | ["apis", _, _, _]) && !is_own;
        // These ask for a part or for a version, or are refused.
        let narrowed = [
            "Selector=",
            "resourceVersionMatch",
            "continue=",
            "=999999999",
        ];
        let is_narrowed = narrowed.iter().any(|part| query.contains(part));
        let is_compared = server == shared.apiserver.address() && method == Method::GET;
        assert!(
            !is_compared || !is_whole || is_narrowed,
            "{target} is compared in the cluster that all tests write to"
        );
    }

    /// Returns the cluster that holds the [`sample`]. It is read-only.
    pub fn quiet() -> &'static Cluster {
        static QUIET: Once<Cluster> = Once::new();
        once(&QUIET, || async {
            let cluster = Cluster::start(&[]).await;
            sample::create(&cluster.admin_client()).await;
            read_only::make(&cluster.admin_client()).await;
            cluster
        })
    }

    pub async fn start(extra_flags: &[String]) -> Self {
        let folder = process::temporary_folder("cluster");
        let certificates = Certificates::generate(&folder);
        let admin = certificates.client("kubernetes-admin", &["system:masters"]);
        let front = certificates.client("apifront", &[]);
        let kubelet_client = certificates.client("kube-apiserver-kubelet-client", &[]);
        let mut etcd = Etcd::start(&folder);
        bootstrap_roles::give(&mut etcd, extra_flags).await;
        let apiserver =
            KubeApiserver::start(&folder, &etcd, &certificates, &kubelet_client, extra_flags);
        let server = format!("https://{}", apiserver.address());
        let ca = Some(certificates.cluster.cert.as_path());
        let config = |name, pair| {
            kubeconfig::write(&folder, name, &server, ca, Credential::Certificate(pair))
        };
        let mut cluster = Self {
            admin_kubeconfig: config("admin", &admin),
            front_kubeconfig: config("front", &front),
            folder,
            certificates,
            etcd,
            apiserver,
            admin,
            front,
        };
        cluster.wait_ready().await;
        bootstrap_roles::learn(&cluster.etcd, extra_flags).await;
        let version = cluster.admin_client().get("/version").await.expect(200);
        Release::tell(version["gitVersion"].as_str().expect("a version"));
        flow_names::learn(&cluster.admin_client()).await;
        cluster.grant_front().await;
        cluster
    }

    pub async fn restart_apiserver(&mut self) {
        self.apiserver.kill();
        self.apiserver.start_again();
        self.wait_ready().await;
    }

    pub async fn wait_ready(&mut self) {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let client = self.admin_client();
            let ready = client.try_send(Method::GET, "/readyz", &[], "");
            if ready.await.is_ok_and(|a| a.status == 200) {
                return;
            }
            assert!(
                self.etcd.alive() && self.apiserver.alive() && Instant::now() < deadline,
                "kube-apiserver is not ready\n{}",
                self.apiserver.log_tail()
            );
            crate::pace::of_tries(Duration::from_millis(50)).await;
        }
    }

    async fn grant_front(&self) {
        let binding = objects::cluster_role_binding("apifront", "apifront", "User", "apifront");
        grant_everywhere(&self.admin_client(), &[front_role(), binding]).await;
    }

    pub fn ca(&self) -> &Path {
        &self.certificates.cluster.cert
    }

    pub fn admin_client(&self) -> Client {
        self.client(Some(&self.admin))
    }

    pub fn client(&self, certificate: Option<&Pair>) -> Client {
        Client::tls(self.apiserver.address(), self.ca(), certificate)
    }

    pub fn server_url(&self) -> String {
        format!("https://{}", self.apiserver.address())
    }

    pub async fn namespace(&self, purpose: &str) -> String {
        create_namespace(&self.admin_client(), purpose).await
    }

    /// Returns the sum of a metric's samples that have all of `labels`.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let text = self.admin_client().get("/metrics").await.text();
        sum_metric(&text, name, labels)
    }
}

/// Returns the ClusterRole that apifront needs: to read what it caches, to ask who
/// callers are and which rights they have, and to act for them.
fn front_role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": { "name": "apifront" },
        "rules": [
            { "apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"] },
            { "nonResourceURLs": ["*"], "verbs": ["get"] },
            {
                "apiGroups": ["authentication.k8s.io"],
                "resources": ["tokenreviews"],
                "verbs": ["create"],
            },
            {
                "apiGroups": ["authorization.k8s.io"],
                "resources": ["subjectaccessreviews"],
                "verbs": ["create"],
            },
            {
                "apiGroups": [""],
                "resources": ["users", "groups", "serviceaccounts"],
                "verbs": ["impersonate"],
            },
            {
                "apiGroups": ["authentication.k8s.io"],
                // The resources are uids and userextras. Userextras have the
                // extra's key as subresource, for which RBAC has no pattern.
                "resources": ["*"],
                "verbs": ["impersonate"],
            },
        ],
    })
}

pub async fn create_namespace(admin: &Client, purpose: &str) -> String {
    let name = unique(purpose);
    create_namespace_named(admin, &name).await;
    name
}

pub async fn create_namespace_named(admin: &Client, name: &str) {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
    });
    admin
        .post("/api/v1/namespaces", &namespace)
        .await
        .expect(201);
}

pub async fn grant_everywhere(admin: &Client, grants: &[Value]) {
    for grant in grants {
        let kind = grant["kind"].as_str().expect("a kind").to_lowercase();
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{kind}s");
        admin.post(&path, grant).await.expect(201);
    }
}

pub async fn grant(admin: &Client, namespace: &str, grants: &[Value]) {
    for grant in grants {
        let kind = grant["kind"].as_str().expect("a kind").to_lowercase();
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/{kind}s");
        admin.post(&path, grant).await.expect(201);
    }
}

/// Returns a name that is used once in this test binary.
pub fn unique(purpose: &str) -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("{purpose}-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

pub fn sum_metric(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    text.lines()
        .filter(|line| {
            line.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(['{', ' ']))
        })
        .filter(|line| {
            labels
                .iter()
                .all(|(k, v)| line.contains(&format!("{k}=\"{v}\"")))
        })
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

/// A value that is created once and lives as long as the process. A failure is kept
/// too, so that not every test waits for it again.
pub type Once<T> = OnceLock<Result<T, String>>;

pub fn once<T, F, Fut>(slot: &'static Once<T>, start: F) -> &'static T
where
    T: Send + Sync,
    F: FnOnce() -> Fut + Send,
    Fut: Future<Output = T>,
{
    let started = slot.get_or_init(|| shared::started(start));
    match started {
        Ok(value) => value,
        Err(message) => panic!("what tests share did not start: {message}"),
    }
}
