//! Starts the binary under test before an API server.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use super::certificates::Pair;
use super::client::Client;
use super::cluster::{Cluster, Once, once, sum_metric};
use super::eventually;
use super::expect::DEBUG;
use super::kubeconfig::{self, Credential};
use super::process::{self, Process};
use super::{logs, ports, volume};

const READY_WITHIN: Duration = Duration::from_secs(60);
/// The time from SIGTERM to exit, if no delay is configured.
const STOPS_WITHIN: Duration = Duration::from_secs(30);

/// The environment variable that puts kube-apiserver itself in apifront's
/// place. A comparison that fails then is a mistake of the suite.
pub const ORACLE: &str = "APIFRONT_TEST_ORACLE";

pub fn oracle() -> bool {
    std::env::var_os(ORACLE).is_some()
}

/// The environment variable that names another build of apifront to start. With it,
/// a benchmark can alternate between two builds, and a suite can run with a build
/// that has an older schema.
pub const BINARY: &str = "APIFRONT_TEST_BINARY";

pub fn is_other_build() -> bool {
    std::env::var_os(BINARY).is_some()
}

fn binary() -> PathBuf {
    std::env::var_os(BINARY).map_or_else(built, PathBuf::from)
}

pub const UPSTREAM_KINDS: [&str; 12] = [
    "forward",
    "list",
    "watch",
    "earlier_events",
    "probe",
    "self_check",
    "shared_read",
    "token_review",
    "subject_access_review",
    "self_subject_review",
    "discovery",
    "health",
];

const LOG: &str = "apifront.log";

/// Returns apifront's requests by kind, from its metrics. Fails if a kind is not in
/// [`UPSTREAM_KINDS`].
pub fn upstream_requests(metrics: &str) -> BTreeMap<&'static str, f64> {
    let name = "apifront_upstream_requests_total";
    let count = |kind| sum_metric(metrics, name, &[("kind", kind)]);
    let kinds: BTreeMap<_, _> = UPSTREAM_KINDS.map(|kind| (kind, count(kind))).into();
    assert_eq!(
        kinds.values().sum::<f64>(),
        sum_metric(metrics, name, &[]),
        "{UPSTREAM_KINDS:?} are not all kinds of requests"
    );
    kinds
}

/// Returns the program that cargo has built beside the running test or benchmark.
/// Tests lie one folder deeper.
pub fn built() -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    let folders = own.ancestors().skip(1).take(2);
    let beside = folders.map(|folder| folder.join("apifront"));
    let mut there = beside.filter(|program| program.is_file());
    there.next().expect("apifront is built")
}

/// The environment variable with the number of instances between a test and
/// kube-apiserver. With 2, each instance that has kube-apiserver as its upstream
/// gets a second one as its upstream instead.
pub const HOPS: &str = "APIFRONT_TEST_HOPS";

fn hops() -> usize {
    match oracle() {
        true => 1,
        false => volume::count(HOPS, 1),
    }
}

/// Reports that `test`, the type name of a closure in it, does not run with the
/// oracle. The line goes to stderr directly, because the test runner shows only the
/// output of failed tests. Lines are numbered: the last one shows how many tests
/// were skipped.
pub fn tell_skipped(test: &str, reason: &str) {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    let number = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    let test = test.trim_end_matches("::{{closure}}");
    let line = format!("not asked of the oracle ({number}): {test}: {reason}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

pub struct Apifront {
    pub folder: PathBuf,
    pub config_file: PathBuf,
    pub address: SocketAddr,
    pub observability: SocketAddr,
    pub process: Process,
    ca: PathBuf,
    admin: Option<Pair>,
    /// The instance between this one and kube-apiserver. It lives as long as this
    /// one.
    upper: Option<Box<Apifront>>,
}

impl Apifront {
    /// Returns an instance with the configuration of [`config_before`], for all
    /// tests that only read and write through it.
    pub fn shared() -> &'static Apifront {
        static SHARED: Once<Apifront> = Once::new();
        once(&SHARED, || Apifront::start(Cluster::shared(), |_| {}))
    }

    pub fn quiet() -> &'static Apifront {
        static QUIET: Once<Apifront> = Once::new();
        once(&QUIET, || Apifront::start(Cluster::quiet(), |_| {}))
    }

    /// Starts an instance whose upstream is this one. Both serve the users of
    /// `cluster`.
    pub async fn start_below(&self, cluster: &Cluster, change: impl FnOnce(&mut Value)) -> Self {
        let upper = self.kubeconfig_for_lower(cluster);
        Self::start(cluster, |config| {
            config["upstream"]["kubeconfig"] = json!(upper);
            change(config);
        })
        .await
    }

    /// Writes the kubeconfig that makes this instance the upstream of another one.
    fn kubeconfig_for_lower(&self, cluster: &Cluster) -> PathBuf {
        let who = Credential::Certificate(&cluster.front);
        kubeconfig::write(&self.folder, "lower", &self.url(), Some(cluster.ca()), who)
    }

    /// Starts the instances between kube-apiserver and an instance with this
    /// configuration. Makes the lowest of them that instance's upstream.
    async fn start_upper(cluster: &Cluster, config: &mut Value) -> Option<Box<Self>> {
        if config["upstream"]["kubeconfig"] != json!(cluster.front_kubeconfig) {
            return None;
        }
        let mut upper: Option<Box<Self>> = None;
        for _ in 1..hops() {
            let mut its = config_before(cluster);
            its["upstream"] = config["upstream"].clone();
            let mut front = Self::start_alone(cluster, &[], &[], &its).await;
            front.upper = upper;
            config["upstream"]["kubeconfig"] = json!(front.kubeconfig_for_lower(cluster));
            upper = Some(Box::new(front));
        }
        upper
    }

    /// Starts an instance before `cluster` and waits until it is ready.
    /// `change` edits the FrontConfiguration.
    pub async fn start(cluster: &Cluster, change: impl FnOnce(&mut Value)) -> Self {
        Self::start_with_flags(cluster, &[], change).await
    }

    pub async fn start_with_flags(
        cluster: &Cluster,
        flags: &[&str],
        change: impl FnOnce(&mut Value),
    ) -> Self {
        let mut config = config_before(cluster);
        change(&mut config);
        let upper = Self::start_upper(cluster, &mut config).await;
        let mut front = Self::start_alone(cluster, flags, &[], &config).await;
        front.upper = upper;
        front
    }

    /// Does the same as [`Apifront::start`], but the upstream is kube-apiserver even
    /// if [`HOPS`] asks for more instances. Tests of an outage need this: an
    /// instance behaves differently when its upstream is another instance.
    pub async fn start_directly(cluster: &Cluster, change: impl FnOnce(&mut Value)) -> Self {
        let mut config = config_before(cluster);
        change(&mut config);
        Self::start_alone(cluster, &[], &[], &config).await
    }

    /// Does the same as [`Apifront::start_directly`], but the allocator returns
    /// freed memory at once instead of after a second. The resident memory is then
    /// what the process holds.
    pub async fn start_without_free_memory(
        cluster: &Cluster,
        change: impl FnOnce(&mut Value),
    ) -> Self {
        let mut config = config_before(cluster);
        change(&mut config);
        let at_once = [("MIMALLOC_PURGE_DELAY", "0")];
        Self::start_alone(cluster, &[], &at_once, &config).await
    }

    async fn start_alone(
        cluster: &Cluster,
        flags: &[&str],
        variables: &[(&str, &str)],
        config: &Value,
    ) -> Self {
        let folder = process::temporary_folder("front");
        let config_file = folder.join("config.yaml");
        write_config(&config_file, config);
        let port = |section: &str, key: &str| {
            let port = config[section][key].as_u64().expect("a port");
            ports::loopback(u16::try_from(port).expect("a port"))
        };
        let mut command = Command::new(binary());
        command.arg("--config").arg(&config_file).args(flags);
        command.envs(variables.iter().copied());
        if oracle() {
            command = Command::new("sleep");
            command.arg("infinity");
        }
        let process = Process::spawn("apifront", &mut command, &folder.join(LOG));
        let mut front = Self {
            address: if oracle() {
                cluster.apiserver.address()
            } else {
                port("serving", "securePort")
            },
            observability: port("observability", "port"),
            folder,
            config_file,
            process,
            ca: cluster.ca().to_owned(),
            admin: Some(cluster.admin.clone()),
            upper: None,
        };
        if !oracle() {
            logs::remember(front.address, &front.folder.join(LOG));
        }
        let client = front.client(front.admin.as_ref());
        front.wait_ready(&client).await;
        front
    }

    /// Starts `apifront --kubeconfig FILE --insecure-port N`, which serves
    /// plain HTTP on loopback as the kubeconfig's user.
    pub async fn personal(kubeconfig: &Path) -> Self {
        Self::personal_with_flags(kubeconfig, &[]).await
    }

    pub async fn personal_with_flags(kubeconfig: &Path, flags: &[&str]) -> Self {
        let mut front = Self::personal_alive(kubeconfig, flags).await;
        let client = Client::plain(front.address);
        front.wait_ready(&client).await;
        front
    }

    /// Does the same as [`Apifront::personal`] before an API server that
    /// apifront cannot use, and waits for `/livez` only.
    pub async fn personal_alive(kubeconfig: &Path, flags: &[&str]) -> Self {
        let folder = process::temporary_folder("personal");
        let (port, observability) = (ports::free(), ports::free());
        let mut command = Command::new(binary());
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(["--insecure-port", &port.to_string()])
            .args(flags);
        let process = Process::spawn("apifront", &mut command, &folder.join(LOG));
        let mut front = Self {
            address: ports::loopback(port),
            observability: ports::loopback(observability),
            config_file: folder.join("none"),
            folder,
            process,
            ca: PathBuf::new(),
            admin: None,
            upper: None,
        };
        let client = Client::plain(front.address);
        front.wait_for("/livez", &client).await;
        front
    }

    /// Kills the process and starts it again, with the configuration as it is
    /// written now.
    pub async fn restart(&mut self) {
        self.restart_alive().await;
        let client = self.admin_client();
        self.wait_ready(&client).await;
    }

    /// Does the same as [`Apifront::restart`], and waits for `/livez` only.
    pub async fn restart_alive(&mut self) {
        self.restart_as(Command::new(binary())).await;
    }

    /// Restarts it with a soft limit of open files, as systemd and container runtimes
    /// set one.
    pub async fn restart_with_open_files(&mut self, soft: usize) {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={soft}:")).arg(binary());
        self.restart_as(command).await;
        let client = self.admin_client();
        self.wait_ready(&client).await;
    }

    async fn restart_as(&mut self, mut command: Command) {
        self.process.kill();
        command.arg("--config").arg(&self.config_file);
        let log = self.folder.join("apifront-again.log");
        self.process = Process::spawn("apifront", &mut command, &log);
        let client = self.admin_client();
        self.wait_for("/livez", &client).await;
    }

    async fn wait_ready(&mut self, client: &Client) {
        self.wait_for("/readyz", client).await;
    }

    async fn wait_for(&mut self, path: &str, client: &Client) {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let ready = client.try_send(Method::GET, path, &[], "");
            if ready.await.is_ok_and(|a| a.status == 200) {
                return;
            }
            assert!(
                self.process.alive() && Instant::now() < deadline,
                "apifront does not pass {path}\n{}",
                self.process.log_tail()
            );
            crate::pace::of_tries(Duration::from_millis(50)).await;
        }
    }

    pub fn client(&self, certificate: Option<&Pair>) -> Client {
        Client::tls(self.address, &self.ca, certificate)
    }

    pub fn admin_client(&self) -> Client {
        self.client(self.admin.as_ref())
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Reads `path` until the answer comes from the cache. `client` must be
    /// allowed to read `path`.
    pub async fn warm(&self, client: &Client, path: &str) {
        eventually("a cache hit", READY_WITHIN, || async {
            let answer = client.send(Method::GET, path, &[DEBUG], "").await;
            answer.status == 200 && (oracle() || answer.is_hit())
        })
        .await;
    }

    pub async fn metrics(&self) -> String {
        Client::plain(self.observability)
            .get("/metrics")
            .await
            .text()
    }

    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        sum_metric(&self.metrics().await, name, labels)
    }

    pub fn write_config(&self, config: &Value) {
        write_config(&self.config_file, config);
    }

    pub fn read_config(&self) -> Value {
        serde_json::from_slice(&std::fs::read(&self.config_file).expect("config")).expect("JSON")
    }

    pub fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Sends SIGTERM, and fails unless apifront exits with 0.
    pub async fn stop(mut self) {
        self.process.signal("TERM");
        let status = self.process.wait(STOPS_WITHIN).await;
        assert!(
            status.success() || oracle(),
            "apifront ended with {status}\n{}",
            self.process.log_tail()
        );
        drop(self.upper.take());
    }
}

/// Writes the configuration as JSON, which is YAML. The file is written beside
/// the old one and renamed, as editors and kubelets do.
fn write_config(path: &Path, config: &Value) {
    let fresh = path.with_extension("fresh");
    std::fs::write(&fresh, format!("{config:#}\n")).expect("config");
    std::fs::rename(&fresh, path).expect("config");
}

/// Returns the FrontConfiguration of an apifront that serves `cluster` to the
/// users that the cluster knows.
pub fn config_before(cluster: &Cluster) -> Value {
    let certificates = &cluster.certificates;
    json!({
        "apiVersion": "apifront.dev/v1alpha1",
        "kind": "FrontConfiguration",
        "serving": {
            "bindAddress": "127.0.0.1",
            "securePort": ports::free(),
            "tlsCertFile": certificates.serving.cert,
            "tlsPrivateKeyFile": certificates.serving.key,
            "insecurePort": 0,
        },
        "observability": { "bindAddress": "127.0.0.1", "port": ports::free() },
        // On a busy machine, kube-apiserver takes longer than the default to accept a
        // connection.
        "upstream": { "kubeconfig": cluster.front_kubeconfig, "connectTimeout": "30s" },
        "authentication": {
            "clientCAFile": certificates.cluster.cert,
            "tokenReview": { "enabled": true },
            "requestHeader": {
                "clientCAFile": certificates.front_proxy.cert,
                "allowedNames": ["front-proxy"],
            },
            "anonymous": { "enabled": false },
        },
        "identity": {
            "mode": "RequestHeader",
            "proxyClientCertFile": certificates.proxy_client.cert,
            "proxyClientKeyFile": certificates.proxy_client.key,
        },
    })
}
