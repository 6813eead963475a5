//! Audit events of one caller while another one floods.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::flood::Flood;
use super::measure::{Bound, Times, assert_unharmed};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::kubeconfig::{self, Credential};
use crate::harness::process::temporary_folder;
use crate::harness::scripted::Scripted;
use crate::harness::volume;

const BOUND: Bound = Bound {
    times_quiet: 3,
    floor: Duration::from_millis(1000),
};

/// A read that every caller may make, and that apifront answers from memory.
const READ: &str = "/api/v1/namespaces?resourceVersion=0";
const SOON: Duration = Duration::from_secs(30);
const AT_A_TIME: usize = 64;

fn policy(folder: &Path) -> PathBuf {
    let file = folder.join("policy.yaml");
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{
            "level": "Metadata",
            "resources": [{ "group": "", "resources": ["namespaces"] }],
        }],
    });
    std::fs::write(&file, policy.to_string()).expect("policy");
    file
}

async fn start(keys: Value) -> Apifront {
    let front = Apifront::start(Cluster::shared(), |config| {
        config["observability"]
            .as_object_mut()
            .expect("an object")
            .extend(keys.as_object().expect("an object").clone());
    })
    .await;
    front.warm(&front.admin_client(), READ).await;
    front
}

/// The users are members of system:masters, so no review slows the flood down.
fn users(front: &Apifront) -> (Client, Vec<Client>) {
    let client = |name: &str| {
        let certificates = &Cluster::shared().certificates;
        front.client(Some(&certificates.client(name, &["system:masters"])))
    };
    let flood = client("flood");
    (client("jane"), (0..4).map(|_| flood.separate()).collect())
}

async fn read(client: &Client, id: &str) -> bool {
    let headers = [("audit-id", id)];
    let answer = client.try_send(Method::GET, READ, &headers, "").await;
    answer.is_ok_and(|answer| answer.status == 200)
}

async fn flood(clients: Vec<Client>) -> Flood {
    Flood::start(AT_A_TIME, move |n| {
        let client = clients[n % clients.len()].clone();
        async move {
            read(&client, &format!("flood-{n}")).await;
        }
    })
    .await
}

/// The webhook stands still for a while. The other caller's events must be kept
/// until it continues.
#[tokio::test]
async fn a_flood_does_not_drop_the_events_of_others() {
    skip_under_oracle!("the audit backends are apifront's");
    const READS: usize = 40;
    let folder = temporary_folder("audit-flood");
    let (held, found) = (
        Arc::new(AtomicBool::new(true)),
        Arc::new(Mutex::new(BTreeSet::new())),
    );
    let webhook = Scripted::start({
        let (held, found) = (held.clone(), found.clone());
        move |mut connection| {
            let (held, found) = (held.clone(), found.clone());
            async move {
                while let Some(request) = connection.next_of_any().await {
                    let Some(body) = connection.body(&request).await else {
                        return;
                    };
                    while held.load(Ordering::Relaxed) {
                        crate::harness::pace::of_tries(Duration::from_millis(50)).await;
                    }
                    let list: Value = serde_json::from_slice(&body).expect("JSON");
                    for item in list["items"].as_array().expect("items") {
                        let id = item["auditID"].as_str().expect("an id");
                        found.lock().await.insert(id.to_owned());
                    }
                    connection.answer("200 OK", "").await;
                }
            }
        }
    })
    .await;
    let server = format!("http://{}/audit", webhook.address);
    let secret = Credential::Token("secret");
    let webhook_config = kubeconfig::write(&folder, "webhook", &server, None, secret);
    let front = start(json!({
        "auditPolicyFile": policy(&folder), "auditLogPath": "",
        "auditWebhookConfigFile": webhook_config,
        "auditWebhookBatchBufferSize": 200, "auditWebhookBatchMaxSize": 10,
        "auditWebhookBatchMaxWait": "100ms", "auditWebhookBatchThrottleEnable": false,
    }))
    .await;
    let (jane, clients) = users(&front);
    let flood = flood(clients).await;
    let lost = || async {
        let plugin = [("plugin", "buffered")];
        front.metric("apiserver_audit_error_total", &plugin).await
    };
    eventually("the flood loses events", SOON, || async {
        lost().await > 100.0
    })
    .await;
    for n in 0..READS {
        assert!(read(&jane, &format!("jane-{n}")).await);
    }
    println!(
        "{} reads of the flood, {} events lost",
        flood.end(),
        lost().await
    );
    held.store(false, Ordering::Relaxed);
    let of_jane = || async {
        let found = found.lock().await;
        found.iter().filter(|id| id.starts_with("jane-")).count()
    };
    let told = front.process.log().contains("audit events are lost");
    // All waiting events are sent at the end.
    front.stop().await;
    assert_eq!(of_jane().await, READS);
    assert!(told, "the log tells of losses");
}

/// Reads from memory are faster than a log. A caller with many reads must wait for
/// the log.
#[tokio::test]
#[ignore = "it measures: make test-measured"]
async fn a_flood_is_no_faster_than_its_audit_and_delays_nobody() {
    skip_under_oracle!("the audit backends are apifront's");
    const READS: usize = 200;
    let reads = READS * volume::samples();
    let folder = temporary_folder("audit-pace");
    let log = folder.join("audit.log");
    let front = start(json!({
        "auditPolicyFile": policy(&folder), "auditLogPath": log,
        "auditLogBatchBufferSize": 1000,
    }))
    .await;
    let (jane, clients) = users(&front);
    let reading = async |n: usize| read(&jane, &format!("jane-{n}")).await;
    let quiet = Times::of_requests(READS, reading).await;
    let flood = flood(clients).await;
    let attacked = Times::of_requests(READS, async |n| reading(reads + n).await).await;
    println!("{} reads of the flood", flood.end());
    assert_unharmed("an audited read", &quiet, &attacked, BOUND);
    let plugin = [("plugin", "buffered")];
    let lost = front.metric("apiserver_audit_error_total", &plugin).await;
    front.stop().await;
    let text = std::fs::read_to_string(&log).expect("the log");
    let of_jane = text
        .lines()
        .filter(|line| line.contains(r#""auditID":"jane-"#));
    assert_eq!((of_jane.count(), lost), (2 * reads, 0.0));
}
