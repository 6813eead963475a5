//! Tests of the audit backends: rotation, the webhook, reload, shutdown, and
//! full buffers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::world::{SOON, Sent, lines};
use crate::harness::apifront::{self, Apifront};
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::process::temporary_folder;
use crate::harness::scripted::Scripted;
use crate::harness::{eventually, ports};

/// One object: how many there are depends on other tests, and so would the log's length.
const READ: &str = "/api/v1/namespaces/default?resourceVersion=0";

fn write_policy(folder: &Path, level: &str) -> PathBuf {
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            { "level": level, "resources": [{ "group": "", "resources": ["namespaces"] }] },
        ],
    });
    let (file, fresh) = (folder.join("policy.yaml"), folder.join("policy.fresh"));
    std::fs::write(&fresh, policy.to_string()).expect("policy");
    std::fs::rename(&fresh, &file).expect("policy");
    file
}

/// Starts apifront before the shared cluster, with these keys in
/// `observability`.
async fn start(keys: Value) -> Apifront {
    Apifront::start(Cluster::shared(), |config| {
        let observability = config["observability"].as_object_mut().expect("an object");
        observability.extend(keys.as_object().expect("an object").clone());
    })
    .await
}

async fn read(client: &Client, id: &str) {
    let answer = Sent::get(READ).by(client, id).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn ids(log: &Path) -> Vec<String> {
    let id = |line: &String| {
        let event: Value = serde_json::from_str(line).expect("JSON");
        event["auditID"].as_str().expect("an id").to_owned()
    };
    lines(log).iter().map(id).collect()
}

/// Every read has exactly one event, in one of the log's files.
#[tokio::test]
async fn a_full_log_is_rotated_and_loses_nothing() {
    skip_under_oracle!("the audit backends are apifront's");
    const READS: usize = 2500;
    let folder = temporary_folder("rotation");
    let policy = write_policy(&folder, "RequestResponse");
    let log = folder.join("logs/audit.log");
    let front = start(json!({
        "auditPolicyFile": policy, "auditLogPath": log, "auditLogMaxSize": 1,
        "auditLogCompress": true, "auditLogMaxBackups": 50,
    }))
    .await;
    let client = front.admin_client();
    for n in 0..READS {
        read(&client, &format!("r-{n}")).await;
    }
    front.stop().await;
    let folder = log.parent().expect("a folder");
    let mut found = BTreeSet::new();
    let (mut count, mut backups) = (0, 0);
    for entry in std::fs::read_dir(folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        // The process ended while it compressed this file.
        if path.extension().is_some_and(|e| e == "partial") {
            continue;
        }
        let bytes = std::fs::read(&path).expect("a log");
        let text = if path.extension().is_some_and(|e| e == "gz") {
            let mut text = String::new();
            let mut decoder = flate2::read::GzDecoder::new(bytes.as_slice());
            std::io::Read::read_to_string(&mut decoder, &mut text).expect("gzip");
            text
        } else {
            String::from_utf8(bytes).expect("UTF-8")
        };
        assert!(text.len() <= 1 << 20, "{}: {}", path.display(), text.len());
        backups += usize::from(path != log);
        for line in text.lines() {
            let event: Value = serde_json::from_str(line).expect("whole lines");
            found.insert(event["auditID"].as_str().expect("an id").to_owned());
            count += 1;
        }
    }
    assert!(backups > 0);
    // The harness's own reads of namespaces have other IDs.
    let mine = found.iter().filter(|id| id.starts_with("r-")).count();
    assert_eq!((mine, count), (READS, found.len()));
}

type Head = (String, Option<String>);

/// The requests that a webhook has received.
#[derive(Clone, Default)]
struct Received {
    bodies: Arc<Mutex<Vec<Value>>>,
    heads: Arc<Mutex<Vec<Head>>>,
    refuses: Arc<AtomicBool>,
}

impl Received {
    async fn serve(&self) -> Scripted {
        let received = self.clone();
        Scripted::start(move |mut connection| {
            let received = received.clone();
            async move {
                while let Some(request) = connection.next_of_any().await {
                    let Some(body) = connection.body(&request).await else {
                        return;
                    };
                    let token = request.header("authorization").map(str::to_owned);
                    received
                        .heads
                        .lock()
                        .await
                        .push((request.line.clone(), token));
                    if received.refuses.load(Ordering::Relaxed) {
                        connection.answer("500 Internal Server Error", "no").await;
                        continue;
                    }
                    let list = serde_json::from_slice(&body).expect("JSON");
                    received.bodies.lock().await.push(list);
                    connection.answer("200 OK", "").await;
                }
            }
        })
        .await
    }

    async fn ids(&self) -> Vec<String> {
        let bodies = self.bodies.lock().await;
        let items = bodies
            .iter()
            .flat_map(|b| b["items"].as_array().expect("items"));
        items
            .map(|i| i["auditID"].as_str().expect("an id").to_owned())
            .filter(|id| id.starts_with("w-"))
            .collect()
    }
}

fn webhook_config(folder: &Path, address: std::net::SocketAddr) -> PathBuf {
    let server = format!("http://{address}/audit/events");
    kubeconfig::write(
        folder,
        "webhook",
        &server,
        None,
        Credential::Token("secret"),
    )
}

/// The webhook gets batches in kube-apiserver's form. Events are kept while it is
/// down; events that find no room are counted.
#[tokio::test]
async fn a_webhook_gets_batches_and_gets_them_again() {
    skip_under_oracle!("the audit backends are apifront's");
    let folder = temporary_folder("webhook");
    let policy = write_policy(&folder, "Metadata");
    let received = Received::default();
    let webhook = received.serve().await;
    let front = start(json!({
        "auditPolicyFile": policy, "auditLogPath": "",
        "auditWebhookConfigFile": webhook_config(&folder, webhook.address),
        "auditWebhookBatchMaxSize": 10, "auditWebhookBatchMaxWait": "300ms",
        "auditWebhookInitialBackoff": "50ms",
    }))
    .await;
    let client = front.admin_client();
    for n in 0..25 {
        read(&client, &format!("w-{n}")).await;
    }
    let has = async |n: usize| received.ids().await.len() >= n;
    eventually("the events are there", SOON, || has(25)).await;
    let bodies = received.bodies.lock().await.clone();
    for list in &bodies {
        assert_eq!(list["kind"], "EventList", "{list}");
        assert_eq!(list["apiVersion"], "audit.k8s.io/v1", "{list}");
        let items = list["items"].as_array().expect("items");
        assert!((1..=10).contains(&items.len()));
        assert!(items.iter().all(|i| i.get("kind").is_none()), "{list}");
    }
    let (line, token) = received.heads.lock().await[0].clone();
    assert_eq!(line, "POST /audit/events?timeout=30s");
    assert_eq!(token.as_deref(), Some("Bearer secret"));

    // The webhook is down, but for less time than the five attempts take.
    received.refuses.store(true, Ordering::Relaxed);
    for n in 25..30 {
        read(&client, &format!("w-{n}")).await;
    }
    let attempts = received.heads.lock().await.len();
    eventually("it is tried again", SOON, || async {
        received.heads.lock().await.len() >= attempts + 2
    })
    .await;
    received.refuses.store(false, Ordering::Relaxed);
    eventually("they come later", SOON, || has(30)).await;

    // The webhook is down for longer. The event is lost, and counted.
    received.refuses.store(true, Ordering::Relaxed);
    read(&client, "w-lost").await;
    let lost = [("plugin", "webhook")];
    eventually("the loss is counted", SOON, || async {
        front.metric("apiserver_audit_error_total", &lost).await >= 1.0
    })
    .await;
    received.refuses.store(false, Ordering::Relaxed);
    // Waiting events are sent at shutdown.
    for n in 30..33 {
        read(&client, &format!("w-{n}")).await;
    }
    front.stop().await;
    let mut all = received.ids().await;
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!((all.len(), count), (33, 33));
}

/// A webhook that accepts connections and never answers delays no request. Events
/// that find no room are counted.
#[tokio::test]
async fn a_full_buffer_loses_events_and_delays_nobody() {
    skip_under_oracle!("the audit backends are apifront's");
    let folder = temporary_folder("full");
    let policy = write_policy(&folder, "Metadata");
    let silent = ports::listen();
    let address = silent.local_addr().expect("an address");
    let log = folder.join("audit.log");
    let front = start(json!({
        "auditPolicyFile": policy, "auditLogPath": log,
        "auditWebhookConfigFile": webhook_config(&folder, address),
        "auditWebhookBatchBufferSize": 20, "auditWebhookBatchMaxSize": 1,
        "auditWebhookBatchThrottleEnable": false,
    }))
    .await;
    let client = front.admin_client();
    for n in 0..100 {
        let id = format!("f-{n}");
        let read = read(&client, &id);
        tokio::time::timeout(Duration::from_secs(5), read)
            .await
            .expect("no request waits for its event");
    }
    let full = front
        .metric("apiserver_audit_error_total", &[("plugin", "buffered")])
        .await;
    // 16 batches are being sent, one waits for its turn, and 20 are in the
    // buffer.
    assert!(full >= 60.0, "{full}");
    assert!(front.metric("apiserver_audit_event_total", &[]).await >= 100.0);
    eventually("the log has all", SOON, || async {
        ids(&log).iter().filter(|id| id.starts_with("f-")).count() == 100
    })
    .await;
}

/// After a reload, requests are audited by the new policy and in the new file. No
/// event is lost, and a bad policy changes nothing.
#[tokio::test]
async fn a_reload_loses_no_event() {
    skip_under_oracle!("the audit backends are apifront's");
    let folder = temporary_folder("audit-reload");
    let policy = write_policy(&folder, "Metadata");
    let log = |n: usize| folder.join(format!("audit-{n}.log"));
    let front = start(json!({ "auditPolicyFile": policy, "auditLogPath": log(0) })).await;
    let client = front.admin_client();
    let reloads = async || {
        front
            .metric("apifront_config_reloads_total", &[("result", "success")])
            .await
    };
    let mut sent = 0;
    for n in 1..4 {
        let before = reloads().await;
        let mut config = front.read_config();
        config["observability"]["auditLogPath"] = json!(log(n));
        front.write_config(&config);
        while reloads().await == before {
            read(&client, &format!("l-{sent}")).await;
            sent += 1;
        }
        // The new file is not used immediately.
        for _ in 0..20 {
            read(&client, &format!("l-{sent}")).await;
            sent += 1;
        }
    }
    // Every event is one whole line in one of the files.
    eventually("all are there", SOON, || async {
        let all = (0..4).flat_map(|n| ids(&log(n)));
        let all: Vec<String> = all.filter(|id| id.starts_with("l-")).collect();
        let different: BTreeSet<&String> = all.iter().collect();
        (all.len(), different.len()) == (sent, sent)
    })
    .await;
    assert!(!ids(&log(3)).is_empty());

    // A wrong policy does not take effect, and the log says why.
    std::fs::write(&policy, "kind: Policy").expect("policy");
    eventually("the log says so", SOON, || async {
        front.process.log().contains("policy.yaml: apiVersion")
    })
    .await;
    read(&client, "l-still").await;
    eventually("events go on", SOON, || async {
        ids(&log(3)).contains(&"l-still".to_owned())
    })
    .await;
    write_policy(&folder, "None");
    eventually("nothing is audited", SOON, || async {
        let before = front.metric("apiserver_audit_event_total", &[]).await;
        read(&client, "none").await;
        front.metric("apiserver_audit_event_total", &[]).await == before
    })
    .await;
    front.stop().await;
}

#[tokio::test]
async fn a_wrong_policy_stops_the_start() {
    let folder = temporary_folder("wrong-policy");
    let file = folder.join("policy.yaml");
    let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Meta\n";
    std::fs::write(&file, text).expect("policy");
    let mut config = crate::harness::apifront::config_before(Cluster::shared());
    config["observability"]["auditPolicyFile"] = json!(file);
    let config_file = folder.join("config.yaml");
    std::fs::write(&config_file, config.to_string()).expect("config");
    for flags in [&["--validate-only"][..], &[]] {
        let output = tokio::process::Command::new(apifront::built())
            .args(flags)
            .arg("--config")
            .arg(&config_file)
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(SOON, output).await.expect("it ends");
        let said = String::from_utf8_lossy(&output.expect("apifront").stderr).into_owned();
        let expected = "observability.auditPolicyFile: ";
        assert!(said.contains(expected), "{said}");
        assert!(
            said.contains("policy.yaml: rules[0].level: \"Meta\": "),
            "{said}"
        );
    }
}
