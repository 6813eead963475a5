//! Runs etcd, or kine in its place, with its data in a temporary folder. Reads what
//! was written through etcd's HTTP gateway.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf, BytesMut};
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::client::Client;
use super::process::Process;
use super::storage::Storage;
use super::{binaries, pace, ports};

/// etcd takes a fraction of a second on an idle machine.
const READY_WITHIN: Duration = Duration::from_secs(60);

pub struct Etcd {
    pub client_port: u16,
    gateway_port: u16,
    process: Process,
}

impl Etcd {
    pub fn start(folder: &Path) -> Self {
        match Storage::under_test() {
            Storage::Etcd => Self::start_etcd(folder),
            Storage::Kine => Self::start_kine(folder),
        }
    }

    fn start_etcd(folder: &Path) -> Self {
        let (client_port, peer_port) = (ports::free(), ports::free());
        let client = format!("http://127.0.0.1:{client_port}");
        let peer = format!("http://127.0.0.1:{peer_port}");
        let process = Process::spawn(
            "etcd",
            Command::new(binaries::path("etcd"))
                .arg("--data-dir")
                .arg(folder.join("etcd"))
                .args(["--listen-client-urls", &client])
                .args(["--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer])
                .args(["--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &format!("default={peer}")])
                .args(["--log-level", "warn"])
                // No data here needs to survive a crash of the machine.
                .arg("--unsafe-no-fsync"),
            &folder.join("etcd.log"),
        );
        Self {
            client_port,
            // etcd serves clients and the gateway on one port.
            gateway_port: client_port,
            process,
        }
    }

    /// Starts kine with sqlite, as k3s runs it.
    fn start_kine(folder: &Path) -> Self {
        let (client_port, gateway_port) = (ports::free(), ports::free());
        let (kine, gateway) = (ports::loopback(client_port), ports::loopback(gateway_port));
        let process = Process::spawn(
            "kine",
            Command::new(binaries::program("kine"))
                // kine's default is a sqlite database below its folder.
                .current_dir(folder)
                .args([gateway.to_string(), kine.to_string()])
                .arg(format!("--listen-address={kine}"))
                .arg("--metrics-bind-address=0")
                // Without this flag kine never compacts the last 1,000 revisions.
                .arg("--compact-min-retain=0"),
            &folder.join("kine.log"),
        );
        Self {
            client_port,
            gateway_port,
            process,
        }
    }

    /// Waits until the store takes writes.
    pub async fn wait_ready(&mut self) {
        let deadline = Instant::now() + READY_WITHIN;
        let range = json!({ "key": STANDARD.encode("none") }).to_string();
        loop {
            let client = self.client();
            let read = client.try_send(Method::POST, "/v3/kv/range", &[], range.clone());
            if read.await.is_ok_and(|answer| answer.status == 200) {
                return;
            }
            assert!(
                self.alive() && Instant::now() < deadline,
                "etcd is not ready\n{}",
                self.process.log_tail()
            );
            pace::of_tries(Duration::from_millis(20)).await;
        }
    }

    pub fn alive(&mut self) -> bool {
        self.process.alive()
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn client(&self) -> Client {
        Client::plain(ports::loopback(self.gateway_port))
    }

    pub async fn revision(&self) -> u64 {
        let range = json!({ "key": STANDARD.encode("none") });
        let answer = self.client().post("/v3/kv/range", &range).await.expect(200);
        number(&answer["header"]["revision"])
    }

    /// Returns etcd's answer with all keys under `prefix`, with or without their
    /// values.
    pub async fn range(&self, prefix: &str, only_keys: bool) -> Value {
        let request = json!({
            "key": STANDARD.encode(prefix),
            "range_end": STANDARD.encode(after_prefix(prefix)),
            "keys_only": only_keys,
        });
        let answer = self.client().post("/v3/kv/range", &request).await;
        answer.expect(200)
    }

    /// Executes the operations in one transaction and returns its revision.
    pub async fn transaction(&self, operations: Vec<Value>) -> String {
        let request = json!({ "success": operations });
        let answer = self.client().post("/v3/kv/txn", &request).await.expect(200);
        let revision = answer["header"]["revision"].as_str();
        revision.expect("a revision").to_owned()
    }

    /// Compacts: discards what was overwritten before `revision`.
    pub async fn compact(&self, revision: u64) {
        let request = json!({ "revision": revision.to_string(), "physical": true });
        let answer = self.client().post("/v3/kv/compaction", &request).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    pub async fn log(&self, prefix: &str, revision: u64) -> Log {
        let request = json!({ "create_request": {
            "key": STANDARD.encode(prefix),
            "range_end": STANDARD.encode(after_prefix(prefix)),
            "start_revision": revision.to_string(),
        }});
        let body = request.to_string();
        let open = self.client();
        let response = open.try_open(Method::POST, "/v3/watch", &[], body).await;
        let response = response.expect("a watch of etcd");
        assert_eq!(response.status(), 200);
        Log {
            prefix: prefix.to_owned(),
            body: response.into_body(),
            buffer: BytesMut::new(),
            keys: BTreeSet::new(),
        }
    }
}

/// One write. The value is as stored, in protobuf for built-in kinds.
#[derive(Debug)]
pub struct Written {
    /// The key without the prefix.
    pub key: String,
    pub revision: u64,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub kind: &'static str,
    pub value: Vec<u8>,
}

pub struct Log {
    prefix: String,
    body: Incoming,
    buffer: BytesMut,
    keys: BTreeSet<String>,
}

impl Log {
    /// Returns all writes up to the creation of `last`, which is not included.
    pub async fn until(mut self, last: &str) -> Vec<Written> {
        let mut all = Vec::new();
        loop {
            while let Some(at) = self.buffer.iter().position(|b| *b == b'\n') {
                let line = self.buffer.split_to(at);
                self.buffer.advance(1);
                let message: Value = serde_json::from_slice(&line).expect("JSON from etcd");
                for event in message["result"]["events"].as_array().into_iter().flatten() {
                    let written = self.written(event);
                    if written.key == last {
                        return all;
                    }
                    all.push(written);
                }
            }
            let frame = self.body.frame().await.expect("etcd goes on");
            if let Ok(data) = frame.expect("etcd goes on").into_data() {
                self.buffer.extend_from_slice(&data);
            }
        }
    }

    fn written(&mut self, event: &Value) -> Written {
        let bytes = |field: &str| {
            let text = event["kv"][field].as_str().unwrap_or_default();
            STANDARD.decode(text).expect("base64")
        };
        let key = String::from_utf8(bytes("key")).expect("a key");
        let key = key
            .strip_prefix(&self.prefix)
            .expect("the prefix")
            .to_owned();
        let kind = if event["type"] == "DELETE" {
            self.keys.remove(&key);
            "DELETED"
        } else if self.keys.insert(key.clone()) {
            "ADDED"
        } else {
            "MODIFIED"
        };
        Written {
            key,
            revision: number(&event["kv"]["mod_revision"]),
            kind,
            value: bytes("value"),
        }
    }
}

/// Returns the first key that does not have the prefix.
fn after_prefix(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().expect("a prefix") += 1;
    end
}

fn number(value: &Value) -> u64 {
    let text = value.as_str().expect("a number in a string");
    text.parse().expect("a number")
}
