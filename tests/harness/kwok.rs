//! Runs kwok as the kubelet of one fake node. The node's pods run at once; exec,
//! attach, logs and port-forward reach real processes and files.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use super::client::Client;
use super::cluster::{Cluster, Once, once};
use super::process::Process;
use super::{binaries, objects, pace, ports};

/// The port of every pod where port-forward reaches `cat`, which echoes.
pub const ECHO_PORT: u16 = 7;
/// The port where port-forward reaches `wc -c`. It answers at the end of its input
/// with the number of bytes.
pub const COUNT_PORT: u16 = 9;
const UP_WITHIN: Duration = Duration::from_secs(60);

pub struct Kwok {
    pub node: &'static str,
    /// The file that `kubectl logs` shows, in the CRI log format.
    pub log_file: PathBuf,
    /// The file that `kubectl attach` shows as it grows.
    pub attach_file: PathBuf,
    process: Process,
}

impl Kwok {
    /// Returns the kubelet of node `kwok` in the shared cluster.
    pub fn shared() -> &'static Kwok {
        static SHARED: Once<Kwok> = Once::new();
        once(&SHARED, || Kwok::start(Cluster::shared()))
    }

    async fn start(cluster: &Cluster) -> Self {
        let node = "kwok";
        let folder = cluster.folder.join("kwok");
        std::fs::create_dir_all(&folder).expect("folder");
        let log_file = folder.join("container.log");
        std::fs::write(&log_file, "").expect("log file");
        for line in ["first line", "second line", "third line"] {
            append_line(&log_file, line);
        }
        let attach_file = folder.join("attach.log");
        std::fs::write(&attach_file, "").expect("attach file");
        let config = folder.join("kwok.yaml");
        write_documents(&config, &documents(&log_file, &attach_file));

        let port = ports::free();
        let serving = &cluster.certificates.serving;
        let spawn = || {
            Process::spawn(
                "kwok",
                Command::new(binaries::path("kwok"))
                    .env("HOME", &folder)
                    .arg("--kubeconfig")
                    .arg(&cluster.admin_kubeconfig)
                    .arg("--config")
                    .arg(&config)
                    .args(["--manage-nodes-with-label-selector", "type=kwok"])
                    .args(["--node-ip", "127.0.0.1"])
                    .args(["--node-port", &port.to_string()])
                    .args(["--server-address", &format!("127.0.0.1:{port}")])
                    // No lease is renewed, since other tests compare objects that must
                    // not change.
                    .args(["--node-lease-duration-seconds", "0"])
                    .arg("--tls-cert-file")
                    .arg(&serving.cert)
                    .arg("--tls-private-key-file")
                    .arg(&serving.key),
                &folder.join("kwok.log"),
            )
        };
        let mut process = spawn();
        let client = Client::tls(SocketAddr::from(([127, 0, 0, 1], port)), cluster.ca(), None);
        let deadline = Instant::now() + UP_WITHIN;
        // kwok opens its port when it watches nodes and pods. It ends before if five of
        // its first lists of nodes fail.
        while client
            .try_send(Method::GET, "/healthz", &[], "")
            .await
            .is_err()
        {
            assert!(Instant::now() < deadline, "{}", process.log_tail());
            if !process.alive() {
                process = spawn();
            }
            pace::of_tries(Duration::from_millis(20)).await;
        }
        let kwok = Self {
            node,
            log_file,
            attach_file,
            process,
        };
        kwok.create_node(cluster, port).await;
        kwok
    }

    async fn create_node(&self, cluster: &Cluster, port: u16) {
        let admin = cluster.admin_client();
        let node = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": self.node, "labels": { "type": "kwok" } },
        });
        admin.post("/api/v1/nodes", &node).await.expect(201);
        let status = json!({ "status": {
            "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
        }});
        let path = format!("/api/v1/nodes/{}/status", self.node);
        admin
            .patch(&path, "merge-patch+json", &status)
            .await
            .expect(200);
    }

    /// Creates a pod on the fake node and waits until it runs.
    pub async fn run_pod(&self, cluster: &Cluster, namespace: &str, name: &str) {
        let admin = cluster.admin_client();
        let pod = objects::pod_on_node(name, json!({ "app": name }), self.node);
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        admin.post(&pods, &pod).await.expect(201);
        let path = format!("{pods}/{name}");
        let deadline = Instant::now() + UP_WITHIN;
        loop {
            let pod: Value = admin.get(&path).await.expect(200);
            if pod["status"]["phase"] == "Running" {
                return;
            }
            let is_late = Instant::now() > deadline;
            assert!(!is_late, "does not run: {pod}\n{}", self.log_tail());
            pace::of_tries(Duration::from_millis(20)).await;
        }
    }

    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}

/// Appends one line as a container runtime would.
pub fn append_line(file: &Path, line: &str) {
    let mut file = std::fs::File::options()
        .append(true)
        .open(file)
        .expect("log file");
    // One write, so that lines of other tests cannot split this one.
    let line = format!("2026-01-01T00:00:00.000000000Z stdout F {line}\n");
    file.write_all(line.as_bytes()).expect("log file");
}

fn documents(log_file: &Path, attach_file: &Path) -> [Value; 6] {
    let api = "kwok.x-k8s.io/v1alpha1";
    [
        json!({
            "apiVersion": api, "kind": "ClusterExec", "metadata": { "name": "all" },
            "spec": { "execs": [{ "local": {} }] },
        }),
        json!({
            "apiVersion": api, "kind": "ClusterAttach", "metadata": { "name": "all" },
            "spec": { "attaches": [{ "logsFile": attach_file }] },
        }),
        json!({
            "apiVersion": api, "kind": "ClusterLogs", "metadata": { "name": "all" },
            "spec": { "logs": [{ "logsFile": log_file, "follow": true }] },
        }),
        json!({
            "apiVersion": api, "kind": "ClusterPortForward", "metadata": { "name": "all" },
            "spec": { "forwards": [
                { "ports": [ECHO_PORT], "command": ["cat"] },
                { "ports": [COUNT_PORT], "command": ["wc", "-c"] },
            ]},
        }),
        json!({
            "apiVersion": api, "kind": "Stage", "metadata": { "name": "node-ready" },
            "spec": {
                "resourceRef": { "apiGroup": "v1", "kind": "Node" },
                "selector": { "matchExpressions": [{
                    "key": ".status.conditions.[] | select( .type == \"Ready\" ) | .status",
                    "operator": "NotIn", "values": ["True"],
                }]},
                "next": { "statusTemplate": concat!(
                    "conditions:\n",
                    "- type: Ready\n  status: \"True\"\n  reason: KubeletReady\n",
                    "  lastHeartbeatTime: {{ Now | Quote }}\n",
                    "  lastTransitionTime: {{ Now | Quote }}\n",
                )},
            },
        }),
        json!({
            "apiVersion": api, "kind": "Stage", "metadata": { "name": "pod-running" },
            "spec": {
                "resourceRef": { "apiGroup": "v1", "kind": "Pod" },
                "selector": { "matchExpressions": [
                    { "key": ".metadata.deletionTimestamp", "operator": "DoesNotExist" },
                    { "key": ".status.phase", "operator": "In", "values": ["Pending"] },
                ]},
                "next": { "statusTemplate": concat!(
                    "phase: Running\n",
                    "startTime: {{ Now | Quote }}\n",
                    "containerStatuses:\n",
                    "{{ range .spec.containers }}\n",
                    "- name: {{ .name | Quote }}\n  image: {{ .image | Quote }}\n",
                    "  ready: true\n  restartCount: 0\n",
                    "  state: {running: {startedAt: {{ Now | Quote }}}}\n",
                    "{{ end }}\n",
                )},
            },
        }),
    ]
}

fn write_documents(path: &Path, documents: &[Value]) {
    let text: Vec<String> = documents.iter().map(|d| format!("{d:#}\n")).collect();
    std::fs::write(path, text.join("---\n")).expect("kwok config");
}
