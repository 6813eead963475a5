//! Lists in pages and at exact versions have the same bytes as kube-apiserver's,
//! whichever server gives each page.

mod pages;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::Method;
use serde_json::{Value, json};

use crate::harness::apifront::{Apifront, oracle};
use crate::harness::client::{Answer, Client};
use crate::harness::cluster::{Cluster, unique};
use crate::harness::differential::{Differential, compare, compare_bytes};
use crate::harness::eventually;
use crate::harness::expect::Expect;
use crate::harness::forwarded;
use crate::harness::media_types::{JSON, PARTIAL_LIST, TABLE_OR_JSON};
use crate::harness::objects::{config_map, pod_on_node, widget, widget_definition};
use crate::harness::shared::Shared;

const OBJECTS: usize = 6;
/// The number of tries, since ages in Tables tick between two answers.
const TRIES: usize = 6;
/// The most pages to follow, since all namespaces of the shared cluster may hold a
/// lot.
const PAGES: usize = 8;

/// kube-apiserver, and two apifronts before it that share nothing.
struct Servers {
    direct: Client,
    fronts: [Client; 2],
    _second: Arc<Apifront>,
}

impl Servers {
    fn get() -> Self {
        static SECOND: Shared<Apifront> = Shared::new();
        let second = SECOND.get(|| Apifront::start(Cluster::shared(), |_| {}));
        Self {
            direct: Cluster::shared().admin_client(),
            fronts: [Apifront::shared().admin_client(), second.admin_client()],
            _second: second,
        }
    }

    /// Makes both fronts cache the resource of `list`, so that they know all later
    /// changes at every version.
    async fn warm(&self, list: &str) {
        self.reach(list, 1).await;
    }

    /// Waits until both fronts have reached `version`.
    async fn reach(&self, list: &str, version: u64) {
        let path = format!("{list}?resourceVersion={version}&resourceVersionMatch=NotOlderThan");
        for front in &self.fronts {
            eventually("the cache is there", Duration::from_secs(30), || async {
                let answer = ask(front, &path, JSON).await;
                answer.status == 200 && is_hit(&answer)
            })
            .await;
        }
    }

    /// Fails unless all servers answer the same byte for byte, the fronts from
    /// memory. Returns the answer.
    async fn same(&self, path: &str, accept: &str) -> Answer {
        let mut difference = String::new();
        for _ in 0..TRIES {
            let (direct, first, second) = tokio::join!(
                ask(&self.direct, path, accept),
                ask(&self.fronts[0], path, accept),
                ask(&self.fronts[1], path, accept),
            );
            difference.clear();
            for front in [&first, &second] {
                difference += &compare(&direct, front);
                if direct.body != front.body {
                    difference += &compare_bytes(&direct.body, &front.body);
                }
                if direct.status == 200 {
                    difference += &unmet(path, accept, front);
                }
            }
            if difference.is_empty() {
                return direct;
            }
        }
        panic!("GET {path} as {accept}\n{difference}");
    }
}

async fn ask(client: &Client, path: &str, accept: &str) -> Answer {
    let headers = [("accept", accept), ("x-apifront-debug", "cache")];
    client.send(Method::GET, path, &headers, "").await
}

fn is_hit(answer: &Answer) -> bool {
    oracle() || answer.is_hit()
}

/// Returns an empty text if the answer came from the right place.
fn unmet(path: &str, accept: &str, answer: &Answer) -> String {
    match oracle() {
        true => String::new(),
        false => forwarded::unmet(Expect::Hit, path, accept, answer),
    }
}

fn version_of(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.expect("version").parse().expect("a number")
}

fn token_of(list: &Answer) -> Option<String> {
    let token = list.json()["metadata"]["continue"].as_str()?.to_owned();
    Some(token).filter(|t| !t.is_empty())
}

fn token(wire: Value) -> String {
    URL_SAFE_NO_PAD.encode(wire.to_string())
}

fn names(list: &Answer) -> Vec<String> {
    let items = list.json()["items"].as_array().cloned().unwrap_or_default();
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap_or("").to_owned();
    items.iter().map(name).collect()
}

/// Returns a list without its version, and with its decoded token without the
/// version.
fn masked(list: &Answer) -> Value {
    let mut value = list.json();
    if let Some(token) = token_of(list) {
        let wire = URL_SAFE_NO_PAD.decode(token).expect("base64");
        let mut wire: Value = serde_json::from_slice(&wire).expect("JSON");
        assert_eq!(wire["rv"].as_u64(), Some(version_of(&value)));
        wire["rv"] = json!("N");
        value["metadata"]["continue"] = wire;
    }
    value["metadata"]["resourceVersion"] = json!("N");
    value
}

/// Objects of one resource in their own namespace and its neighbour.
struct Sample {
    /// The paths of the lists everywhere, in the namespace, and in an empty one.
    lists: Vec<String>,
    /// The version of the last write.
    version: u64,
}

async fn sample(
    admin: &Client,
    base: &str,
    resource: &str,
    object: impl Fn(&str, usize) -> Value,
) -> Sample {
    Servers::get().warm(&format!("{base}/{resource}")).await;
    let ns = Cluster::shared().namespace("chunked").await;
    // `-` sorts before `/`, so these objects come before the namespace's own.
    let neighbour = format!("{ns}-b");
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": neighbour },
    });
    admin
        .post("/api/v1/namespaces", &namespace)
        .await
        .expect(201);
    let list = |ns: &str| format!("{base}/namespaces/{ns}/{resource}");
    let mut version = 0;
    for n in 0..OBJECTS {
        let path = list(if n == 1 { &neighbour } else { &ns });
        let made = admin.post(&path, &object(&format!("o-{n}"), n)).await;
        version = version_of(&made.expect(201));
    }
    Sample {
        lists: vec![
            format!("{base}/{resource}"),
            list(&ns),
            list("no-such-namespace"),
        ],
        version,
    }
}

fn labels(n: usize) -> Value {
    json!({ "odd": (n % 2).to_string() })
}

/// Asks for every combination of resourceVersion × resourceVersionMatch × limit ×
/// continue. Status and body always equal the API server's, and the cache answers
/// where it can.
#[tokio::test]
async fn every_cell_of_the_table() {
    let servers = Servers::get();
    let sample = sample(&servers.direct, "/api/v1", "configmaps", |name, n| {
        config_map(name, labels(n), json!({}))
    })
    .await;
    let list = &sample.lists[1];
    servers.reach(list, sample.version).await;
    let version = sample.version.to_string();
    let wire = |rv: i64| json!({"v": "meta.k8s.io/v1", "rv": rv, "start": "/o-2\u{0}"});
    let good = token(wire(i64::try_from(sample.version).expect("small")));
    let latest = token(wire(-1));
    let mut bypassed = Vec::new();
    let mut differences = String::new();
    for rv in ["", "0", "00", version.as_str(), "x", "-1"] {
        for matched in ["", "Exact", "NotOlderThan", "Foo"] {
            for limit in ["", "0", "2", "100", "-1"] {
                for next in ["", good.as_str(), latest.as_str(), "x"] {
                    for initial in ["", "true"] {
                        let mut query = String::new();
                        for (key, value) in [
                            ("resourceVersion", rv),
                            ("resourceVersionMatch", matched),
                            ("limit", limit),
                            ("continue", next),
                            ("sendInitialEvents", initial),
                        ] {
                            if !value.is_empty() {
                                query += &format!("&{key}={value}");
                            }
                        }
                        let path = format!("{list}?{}", query.trim_start_matches('&'));
                        let direct = ask(&servers.direct, &path, JSON).await;
                        let front = ask(&servers.fronts[0], &path, JSON).await;
                        let same = if direct.status == 200 && front.status == 200 {
                            let newest = next != good && !(matched == "Exact" && rv == version);
                            match newest {
                                true => masked(&direct) == masked(&front),
                                false => direct.body == front.body,
                            }
                        } else {
                            compare(&direct, &front).is_empty()
                        };
                        if !same {
                            differences += &format!(
                                "{path}\n- {} {}\n+ {} {}\n",
                                direct.status,
                                direct.text(),
                                front.status,
                                front.text()
                            );
                        }
                        let unmet = unmet(&path, JSON, &front);
                        if direct.status == 200 && !unmet.is_empty() {
                            bypassed.push(format!("{path}: {unmet}"));
                        }
                    }
                }
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
    // Negative limits and the version `00` are left to the upstream.
    let unexpected: Vec<_> = bypassed
        .iter()
        .filter(|path| !path.contains("limit=-1") && !path.contains("=00"))
        .collect();
    assert!(unexpected.is_empty(), "{unexpected:#?}");
}

#[tokio::test]
async fn malformed_tokens() {
    let servers = Servers::get();
    let mut both = Differential::new(servers.direct, servers.fronts[0].clone());
    let malformed = Expect::Bypass("invalid_options");
    let start = |start: &str| token(json!({"v": "meta.k8s.io/v1", "rv": 5, "start": start}));
    let long = start(&"x".repeat(20_000));
    for token in [
        "x",
        "!",
        "%00",
        "abc=",
        "%ff",
        "bnVsbA",
        "e30",
        "W10",
        &token(json!({"v": "meta.k8s.io/v2", "rv": 5, "start": "a"})),
        &token(json!({"v": "meta.k8s.io/v1", "rv": 0, "start": "a"})),
        &token(json!({"v": "meta.k8s.io/v1", "rv": "5", "start": "a"})),
        &token(json!({"v": "meta.k8s.io/v1", "rv": 1.5, "start": "a"})),
        &token(json!({"v": "meta.k8s.io/v1", "rv": 5})),
        &token(json!({"V": "meta.k8s.io/v1", "RV": -5, "Start": "a", "more": {}})),
        &URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":1,"rv":-1,"start":"a"}"#),
        &URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":99999999999999999999,"start":"a"}"#),
        &start("../secrets"),
        &start("/../../x"),
        &start("a/../b"),
        &start("./a"),
        &start("a//b"),
        &start("//"),
        &start("a/"),
        &start("."),
        &long,
    ] {
        for list in [
            "/api/v1/configmaps",
            "/api/v1/namespaces/kube-system/configmaps",
        ] {
            let path = format!("{list}?limit=1&continue={token}");
            both.expect(malformed).get(&path).await;
        }
    }
    both.finish();
}
