//! Many small pods, and writers that keep changing them.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::json;
use tokio::task::JoinHandle;

use harness::client::Client;
use harness::cluster::create_namespace_named;
use harness::elsewhere;

pub const NAMESPACES: usize = 200;
/// The concurrent creations on each connection. They keep kube-apiserver and etcd
/// busy.
const AT_A_TIME: usize = 32;
const CONNECTIONS: usize = 4;
const WRITERS: usize = 16;

/// Creates the pods with these numbers, on `nodes` nodes in turn.
pub async fn create(admin: &Client, numbers: Range<usize>, nodes: usize) {
    let began = Instant::now();
    if numbers.start == 0 {
        for n in 0..NAMESPACES {
            create_namespace_named(admin, &namespace(n)).await;
        }
    }
    let created = numbers.len();
    let connections: Vec<Client> = (0..CONNECTIONS).map(|_| admin.separate()).collect();
    futures::stream::iter(numbers)
        .for_each_concurrent(AT_A_TIME * CONNECTIONS, |n| {
            let client = &connections[n % CONNECTIONS];
            async move {
                let pod = json!({
                    "apiVersion": "v1", "kind": "Pod",
                    "metadata": { "name": name(n), "labels": { "app": format!("app-{}", n % 40) } },
                    "spec": {
                        "nodeName": node(n % nodes),
                        "automountServiceAccountToken": false,
                        "containers": [{ "name": "main", "image": "registry.example.com/app:1" }],
                    },
                });
                let path = format!("/api/v1/namespaces/{}/pods", namespace(n));
                let answer = client.post(&path, &pod).await;
                assert_eq!(answer.status, 201, "{}", answer.text());
            }
        })
        .await;
    println!("{created} pods created in {:.0?}", began.elapsed());
}

pub fn namespace(n: usize) -> String {
    format!("scale-{:03}", n % NAMESPACES)
}

pub fn node(n: usize) -> String {
    format!("node-{n:04}")
}

pub fn path(n: usize) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", namespace(n), name(n))
}

fn name(n: usize) -> String {
    format!("app-{n:06}")
}

/// Writers that change pods as fast as the answers come, up to a maximal rate.
pub struct Writers {
    tasks: Vec<JoinHandle<()>>,
    changes: Arc<AtomicUsize>,
}

impl Writers {
    /// Changes `objects` pods `rate` times a second.
    pub fn start(admin: &Client, objects: usize, rate: usize) -> Self {
        let changes = Arc::<AtomicUsize>::default();
        let tasks = (0..WRITERS)
            .map(|writer| {
                let (client, changes) = (admin.separate(), changes.clone());
                elsewhere::spawn(async move {
                    let period = Duration::from_secs(1) * WRITERS as u32 / rate as u32;
                    let mut tick = tokio::time::interval(period);
                    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
                    for turn in 0.. {
                        tick.tick().await;
                        // A large odd step spreads the changes over all pods.
                        let n = (turn * WRITERS + writer) * 7_919 % objects;
                        change(&client, n).await;
                        changes.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        Self { tasks, changes }
    }

    pub fn changes(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }

    pub fn end(self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Gives a label of the `n`th pod a new value.
pub async fn change(client: &Client, n: usize) {
    static CHANGES: AtomicUsize = AtomicUsize::new(0);
    let turn = CHANGES.fetch_add(1, Ordering::Relaxed);
    let path = path(n);
    let patch = json!({ "metadata": { "labels": { "turn": turn.to_string() } } });
    let answer = client.patch(&path, "merge-patch+json", &patch).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}
