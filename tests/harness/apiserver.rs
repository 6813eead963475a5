//! Starts kube-apiserver as a real cluster runs it: with RBAC, client
//! certificates, tokens, a front proxy and kubelet credentials.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::certificates::{Certificates, Pair};
use super::etcd::Etcd;
use super::process::Process;
use super::release::Release;
use super::{binaries, gates, logs, ports};

const LOG: &str = "kube-apiserver.log";

pub struct TokenUser {
    pub token: &'static str,
    pub user: &'static str,
    pub uid: &'static str,
    pub groups: &'static str,
}

pub const TOKEN_USERS: [TokenUser; 3] = [
    TokenUser {
        token: "token-of-tess",
        user: "tess",
        uid: "uid-of-tess",
        groups: "developers,testers",
    },
    TokenUser {
        token: "token-of-theo",
        user: "theo",
        uid: "uid-of-theo",
        groups: "",
    },
    TokenUser {
        token: "token-of-root",
        user: "root",
        uid: "uid-of-root",
        groups: "system:masters",
    },
];

pub struct KubeApiserver {
    pub port: u16,
    folder: PathBuf,
    arguments: Vec<String>,
    process: Process,
}

impl KubeApiserver {
    /// Starts kube-apiserver and returns at once. The `extra` flags come last,
    /// so that they take precedence.
    pub fn start(
        folder: &Path,
        etcd: &Etcd,
        certificates: &Certificates,
        kubelet_client: &Pair,
        extra: &[String],
    ) -> Self {
        let port = ports::free();
        let tokens: String = TOKEN_USERS
            .iter()
            .map(|t| {
                // An empty column would mean a group with an empty name.
                let groups = match t.groups {
                    "" => String::new(),
                    groups => format!(",\"{groups}\""),
                };
                format!("{},{},{}{groups}\n", t.token, t.user, t.uid)
            })
            .collect();
        let token_file = folder.join("tokens.csv");
        std::fs::write(&token_file, tokens).expect("token file");

        let file = |path: &Path| path.display().to_string();
        let mut arguments: Vec<String> = [
            (
                "etcd-servers",
                format!("http://127.0.0.1:{}", etcd.client_port),
            ),
            ("bind-address", "127.0.0.1".into()),
            ("secure-port", port.to_string()),
            ("service-cluster-ip-range", "10.96.0.0/16".into()),
            // The endpoints of the `kubernetes` service may not be loopback.
            ("endpoint-reconciler-type", "none".into()),
            ("cert-dir", file(&folder.join("apiserver-certs"))),
            ("tls-cert-file", file(&certificates.serving.cert)),
            ("tls-private-key-file", file(&certificates.serving.key)),
            ("client-ca-file", file(&certificates.cluster.cert)),
            ("token-auth-file", file(&token_file)),
            ("authorization-mode", "RBAC".into()),
            (
                "requestheader-client-ca-file",
                file(&certificates.front_proxy.cert),
            ),
            ("requestheader-allowed-names", "front-proxy".into()),
            ("requestheader-username-headers", "X-Remote-User".into()),
            ("requestheader-group-headers", "X-Remote-Group".into()),
            (
                "requestheader-extra-headers-prefix",
                "X-Remote-Extra-".into(),
            ),
            (
                "proxy-client-cert-file",
                file(&certificates.proxy_client.cert),
            ),
            (
                "proxy-client-key-file",
                file(&certificates.proxy_client.key),
            ),
            ("kubelet-client-certificate", file(&kubelet_client.cert)),
            ("kubelet-client-key", file(&kubelet_client.key)),
            ("kubelet-preferred-address-types", "InternalIP".into()),
            (
                "service-account-issuer",
                "https://kubernetes.default.svc".into(),
            ),
            (
                "service-account-key-file",
                file(&certificates.service_account_public),
            ),
            (
                "service-account-signing-key-file",
                file(&certificates.service_account_private),
            ),
            // No controller makes service accounts here. With this plugin no
            // pod could be created.
            ("disable-admission-plugins", "ServiceAccount".into()),
            ("allow-privileged", "true".into()),
            ("watch-cache", "true".into()),
            ("profiling", "false".into()),
            ("v", "1".into()),
        ]
        .into_iter()
        .map(|(flag, value)| format!("--{flag}={value}"))
        .collect();
        // 1.31 does not know the flag, and 1.32 has its feature off.
        if Release::at_least(33) {
            arguments.push("--requestheader-uid-headers=X-Remote-Uid".to_owned());
        }
        arguments.extend(gates::flags());
        arguments.extend_from_slice(extra);
        let process = spawn(folder, &arguments);
        logs::remember(ports::loopback(port), &folder.join(LOG));
        Self {
            port,
            folder: folder.to_owned(),
            arguments,
            process,
        }
    }

    pub fn address(&self) -> SocketAddr {
        ports::loopback(self.port)
    }

    pub fn alive(&mut self) -> bool {
        self.process.alive()
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    pub fn signal(&self, signal: &str) {
        self.process.signal(signal);
    }

    /// Sends SIGKILL, so that no connection is closed in order.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts the server again, on the same port and with the same data.
    pub fn start_again(&mut self) {
        self.process.kill();
        self.process = spawn(&self.folder, &self.arguments);
    }

    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }
}

fn spawn(folder: &Path, arguments: &[String]) -> Process {
    Process::spawn(
        "kube-apiserver",
        Command::new(binaries::kube_apiserver()).args(arguments),
        &folder.join(LOG),
    )
}
