//! A cluster whose writers can be stopped, and one apifront for each consistency
//! mode before it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::kinds::{KINDS, Kind, LARGE, NAMES, NAMESPACES, labels};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::differential::compare;
use crate::harness::pool::Lease;
use crate::harness::{eventually, objects};

const SETTLES_WITHIN: Duration = Duration::from_secs(30);
/// A writer's pause between two writes, so that writes do not use up the machine.
const PAUSE: Duration = Duration::from_millis(25);
/// The age at which versions and tokens are forgotten. kube-apiserver's watch cache
/// keeps at least 75 s, and etcd is compacted after five minutes.
const REMEMBERED: Duration = Duration::from_secs(60);
const REMEMBERED_AT_MOST: usize = 64;

pub struct World {
    pub cluster: Lease,
    pub fronts: Vec<Apifront>,
    pub memory: Memory,
}

/// Versions and tokens from answers, for later requests.
#[derive(Default)]
pub struct Memory {
    versions: Mutex<Vec<(Instant, Kind, u64)>>,
    tokens: Mutex<Vec<(Instant, String, String)>>,
}

impl World {
    pub async fn start(seed: u64) -> Self {
        let strict = |config: &mut Value| config["cache"]["consistency"] = json!("Strict");
        let fresh = |config: &mut Value| config["cache"]["consistency"] = json!("Fresh");
        let world = Self::with(seed, &[&strict, &fresh]).await;
        for front in &world.fronts {
            for kind in KINDS {
                let path = format!("{}?resourceVersion=0", kind.everywhere());
                front.warm(&front.admin_client(), &path).await;
            }
        }
        world
    }

    /// Starts an apifront with each of these configurations. None has received a
    /// request.
    pub async fn with(seed: u64, changes: &[&dyn Fn(&mut Value)]) -> Self {
        let cluster = Cluster::leased(&[]).await;
        let mut fronts = Vec::new();
        for change in changes {
            fronts.push(Apifront::start(&cluster, change).await);
        }
        let world = Self {
            cluster,
            fronts,
            memory: Memory::default(),
        };
        world.fill(&mut StdRng::seed_from_u64(seed)).await;
        world
    }

    async fn fill(&self, rng: &mut StdRng) {
        let admin = self.cluster.admin_client();
        let definition = objects::widget_definition(super::kinds::GROUP);
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        admin.post(definitions, &definition).await.expect(201);
        for namespace in NAMESPACES.iter().chain([&LARGE]) {
            let body = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            });
            admin.post("/api/v1/namespaces", &body).await.expect(201);
        }
        eventually("the definition is served", SETTLES_WITHIN, || async {
            admin.get(&Kind::Widgets.everywhere()).await.status == 200
        })
        .await;
        for kind in KINDS {
            for namespace in NAMESPACES {
                for name in NAMES {
                    if rng.random_bool(0.7) {
                        let body = kind.object(rng, name);
                        let answer = admin.post(&kind.list(namespace), &body).await;
                        // Nodes exist only once, not per namespace.
                        assert!(
                            matches!(answer.status.as_u16(), 201 | 409),
                            "{}",
                            answer.text()
                        );
                    }
                }
            }
        }
        for n in 0..8 {
            let data = json!({"k": format!("{n:x}").repeat(30_000)});
            let body = objects::config_map(&format!("large-{n}"), json!({}), data);
            let list = Kind::ConfigMaps.list(LARGE);
            admin.post(&list, &body).await.expect(201);
        }
    }

    /// Waits until every cache shows what etcd holds.
    pub async fn settle(&self) {
        let direct = self.cluster.admin_client();
        for kind in KINDS {
            let list = kind.everywhere();
            let truth = direct.get(&list).await;
            truth.expect(200);
            let cached = format!("{list}?resourceVersion=0");
            let clients = self.fronts.iter().map(Apifront::admin_client);
            for client in clients.chain([direct.clone()]) {
                eventually("caches catch up", SETTLES_WITHIN, || async {
                    compare(&truth, &client.get(&cached).await).is_empty()
                })
                .await;
            }
        }
    }

    /// Writes to the API server until told to stop, and returns the number of
    /// accepted writes.
    pub async fn write(&self, seed: u64, stop: &AtomicBool) -> usize {
        let client = self.cluster.admin_client();
        let mut rng = StdRng::seed_from_u64(seed);
        let mut written = 0;
        while !stop.load(Ordering::Relaxed) {
            written += usize::from(write(&client, &mut rng).await);
            crate::harness::pace::of_load(PAUSE).await;
        }
        written
    }
}

/// Writes once. Returns false if the write did not fit the object's state.
async fn write(client: &Client, rng: &mut StdRng) -> bool {
    let kind = *KINDS.choose(rng).expect("kinds");
    let namespace = NAMESPACES.choose(rng).expect("namespaces");
    let name = NAMES.choose(rng).expect("names");
    let list = kind.list(namespace);
    let path = format!("{list}/{name}");
    let merge = "merge-patch+json";
    let answer = match rng.random_range(0..10) {
        0..4 => client.post(&list, &kind.object(rng, name)).await,
        4..6 => {
            let mut labels = labels(rng);
            for key in ["app", "weight", "example.test/kind"] {
                if labels.get(key).is_none() {
                    labels[key] = Value::Null;
                }
            }
            let body = json!({"metadata": {"labels": labels}});
            client.patch(&path, merge, &body).await
        }
        6..8 => {
            let (subresource, body) = kind.change(rng);
            client
                .patch(&format!("{path}{subresource}"), merge, &body)
                .await
        }
        _ => {
            let path = format!("{path}?gracePeriodSeconds=0");
            client.send(Method::DELETE, &path, &[], "").await
        }
    };
    let code = answer.status.as_u16();
    assert!(matches!(code, 200 | 201 | 404 | 409), "{}", answer.text());
    code < 400
}

impl Memory {
    pub fn add_version(&self, kind: Kind, version: u64) {
        let mut versions = self.versions.lock().expect("versions");
        versions.push((Instant::now(), kind, version));
        forget(&mut versions, |v| v.0);
    }

    /// Returns a version that lists or events of `kind` had recently.
    pub fn version(&self, kind: Kind, rng: &mut StdRng) -> Option<u64> {
        let versions = self.versions.lock().expect("versions");
        let fitting: Vec<u64> = (versions.iter())
            .filter(|v| v.1 == kind && v.0.elapsed() < REMEMBERED)
            .map(|v| v.2)
            .collect();
        fitting.choose(rng).copied()
    }

    pub fn add_token(&self, list: &str, token: String) {
        let mut tokens = self.tokens.lock().expect("tokens");
        tokens.push((Instant::now(), list.to_owned(), token));
        forget(&mut tokens, |t| t.0);
    }

    /// Returns a continue token and the list that it belongs to.
    pub fn token(&self, rng: &mut StdRng) -> Option<(String, String)> {
        let tokens = self.tokens.lock().expect("tokens");
        let (_, list, token) = tokens.choose(rng)?;
        Some((list.clone(), token.clone()))
    }
}

fn forget<T>(entries: &mut Vec<T>, since: impl Fn(&T) -> Instant) {
    entries.retain(|e| since(e).elapsed() < REMEMBERED);
    if entries.len() > REMEMBERED_AT_MOST {
        entries.remove(0);
    }
}
