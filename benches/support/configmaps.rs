//! Fills a cluster with small objects, ConfigMaps of 1 KB in several namespaces, and
//! keeps changing them.

use std::cell::Cell;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use harness::client::Client;

const NAMESPACES: usize = 50;
/// The length of the data. With the server's own fields, the JSON has about 1 KB.
pub const DATA_BYTES: usize = 600;
/// The concurrent creations on each connection. They keep kube-apiserver and etcd
/// busy.
const AT_A_TIME: usize = 32;
const CONNECTIONS: usize = 4;
/// The most writes that may wait for their answers.
const WRITES_AT_A_TIME: usize = 64;
/// The number of writes between an object's creation and its deletion.
const LIVES: usize = 400;

pub async fn create(admin: &Client, count: usize) {
    create_in(admin, NAMESPACES, count).await;
}

/// Creates `count` ConfigMaps in the first `namespaces` namespaces.
pub async fn create_in(admin: &Client, namespaces: usize, count: usize) {
    for n in 0..namespaces.min(count) {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace(n) },
        });
        let answer = admin.post("/api/v1/namespaces", &namespace).await;
        answer.expect(201);
    }
    let connections: Vec<Client> = (0..CONNECTIONS).map(|_| admin.separate()).collect();
    futures::stream::iter(0..count)
        .for_each_concurrent(AT_A_TIME * CONNECTIONS, |n| {
            let client = &connections[n % CONNECTIONS];
            async move {
                let path = folder(n % namespaces);
                let answer = client.post(&path, &config_map(&name(n), n)).await;
                assert_eq!(answer.status, 201, "{}", answer.text());
            }
        })
        .await;
}

pub fn namespace(n: usize) -> String {
    format!("tenant-{:02}", n % NAMESPACES)
}

fn name(n: usize) -> String {
    format!("settings-{n:06}")
}

/// Returns the collection of the nth namespace.
pub fn folder(n: usize) -> String {
    format!("/api/v1/namespaces/{}/configmaps", namespace(n))
}

/// Changes `writes` objects, from number `from` on, and deletes every tenth of them.
pub async fn change(admin: &Client, from: usize, writes: usize) {
    let client = admin.separate();
    futures::stream::iter(from..from + writes)
        .for_each_concurrent(AT_A_TIME, |n| {
            let client = &client;
            async move {
                let path = format!("{}/{}", folder(n), name(n));
                let answer = if n % 10 == 9 {
                    client.delete(&path).await
                } else {
                    let change = json!({ "metadata": { "labels": { "write": n.to_string() } } });
                    client.patch(&path, "merge-patch+json", &change).await
                };
                answer.expect(200);
            }
        })
        .await;
}

fn config_map(name: &str, n: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "labels": { "app": format!("app-{}", n % 100), "tier": "backend" },
        },
        "data": { "settings": "x".repeat(DATA_BYTES) },
    })
}

/// Changes objects at a rate until `stop`. Every fourth write creates an object, and
/// every fourth deletes one. Returns the number of acknowledged writes.
pub async fn write(admin: &Client, count: usize, per_second: u64, stop: &Cell<bool>) -> usize {
    let client = admin.separate();
    let mut tick =
        tokio::time::interval(Duration::from_secs(1) / u32::try_from(per_second).expect("fewer"));
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let ticks = futures::stream::unfold((tick, 0), |(mut tick, n)| async move {
        if stop.get() {
            return None;
        }
        tick.tick().await;
        Some((n, (tick, n + 1)))
    });
    let written = Cell::new(0);
    ticks
        .for_each_concurrent(WRITES_AT_A_TIME, |n| {
            let (client, written) = (&client, &written);
            async move {
                write_one(client, n, count).await;
                written.set(written.get() + 1);
            }
        })
        .await;
    written.get()
}

async fn write_one(client: &Client, n: usize, count: usize) {
    let passing = |n: usize| format!("settings-passing-{n:06}");
    let folder = |n: usize| format!("/api/v1/namespaces/{}/configmaps", namespace(n));
    match n % 4 {
        0 => {
            let answer = client.post(&folder(n), &config_map(&passing(n), n)).await;
            // The object may still exist from an earlier round.
            assert!(
                matches!(answer.status.as_u16(), 201 | 409),
                "{}",
                answer.text()
            );
        }
        2 if n > LIVES => {
            let old = n - 2 - LIVES;
            let path = format!("{}/{}", folder(old), passing(old));
            let answer = client.delete(&path).await;
            assert!(
                matches!(answer.status.as_u16(), 200 | 404),
                "{}",
                answer.text()
            );
        }
        _ => {
            // 7919 is a prime: all objects are changed in turn, none twice in a
            // row.
            let at = n * 7919 % count;
            let path = format!("{}/{}", folder(at), name(at));
            let change = json!({ "metadata": { "labels": { "write": n.to_string() } } });
            let answer = client.patch(&path, "merge-patch+json", &change).await;
            answer.expect(200);
        }
    }
}
