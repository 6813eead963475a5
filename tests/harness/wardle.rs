//! Runs `k8s.io/sample-apiserver`, which serves and stores flunders and fischers. It
//! asks its cluster's API server for the rights of callers.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use http::Method;

use super::certificates::Pair;
use super::client::Client;
use super::cluster::Cluster;
use super::process::Process;
use super::release::Release;
use super::{binaries, ports};

pub const GROUP: &str = "wardle.example.com";
/// A busy machine may need this long.
const READY_WITHIN: Duration = Duration::from_secs(60);

pub struct Wardle {
    pub port: u16,
    folder: PathBuf,
    arguments: Vec<String>,
    process: Process,
}

impl Wardle {
    /// Starts a server that trusts the front proxies of `front_proxies`, with
    /// its data in the etcd of `cluster`, and waits until it is ready.
    pub async fn start(cluster: &Cluster, serving: &Pair, front_proxies: &Path) -> Self {
        let port = ports::free();
        let folder = cluster.folder.join(format!("wardle-{port}"));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = |path: &Path| path.display().to_string();
        let kubeconfig = file(&cluster.admin_kubeconfig);
        let etcd = format!("http://127.0.0.1:{}", cluster.etcd.client_port);
        let arguments = [
            ("etcd-servers", etcd),
            ("etcd-prefix", format!("/registry/wardle-{port}")),
            ("bind-address", "127.0.0.1".into()),
            ("secure-port", port.to_string()),
            ("cert-dir", file(&folder)),
            ("tls-cert-file", file(&serving.cert)),
            ("tls-private-key-file", file(&serving.key)),
            ("kubeconfig", kubeconfig.clone()),
            ("authentication-kubeconfig", kubeconfig.clone()),
            ("authorization-kubeconfig", kubeconfig),
            ("client-ca-file", file(cluster.ca())),
            ("requestheader-client-ca-file", file(front_proxies)),
            ("requestheader-allowed-names", "front-proxy".into()),
            ("audit-log-path", file(&folder.join("audit.log"))),
            ("v", "1".into()),
        ]
        .map(|(flag, value)| format!("--{flag}={value}"));
        let mut arguments = arguments.to_vec();
        // The server waits for policies in v1, which kube-apiserver has since 1.36.
        if !Release::at_least(36) {
            arguments.push("--disable-admission-plugins=MutatingAdmissionPolicy".to_owned());
        }
        let process = spawn(&folder, &arguments);
        let mut wardle = Self {
            port,
            folder,
            arguments,
            process,
        };
        wardle.wait_ready(cluster).await;
        wardle
    }

    async fn wait_ready(&mut self, cluster: &Cluster) {
        let client = Client::tls(self.address(), cluster.ca(), Some(&cluster.admin));
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let ready = client.try_send(Method::GET, "/readyz", &[], "").await;
            if ready.is_ok_and(|a| a.status == 200) {
                return;
            }
            assert!(
                self.process.alive() && Instant::now() < deadline,
                "sample-apiserver is not ready\n{}",
                self.process.log_tail()
            );
            crate::pace::of_tries(Duration::from_millis(50)).await;
        }
    }

    pub fn address(&self) -> SocketAddr {
        ports::loopback(self.port)
    }

    pub fn url(&self) -> String {
        format!("https://{}", self.address())
    }

    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts the server again, on the same port and with the same data.
    pub async fn start_again(&mut self, cluster: &Cluster) {
        self.process.kill();
        self.process = spawn(&self.folder, &self.arguments);
        self.wait_ready(cluster).await;
    }

    pub fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }
}

fn spawn(folder: &Path, arguments: &[String]) -> Process {
    Process::spawn(
        "sample-apiserver",
        Command::new(binaries::path("sample-apiserver")).args(arguments),
        &folder.join("sample-apiserver.log"),
    )
}
