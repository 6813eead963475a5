//! Lists in pages and at exact versions have the same bytes as kube-apiserver's,
//! whichever server gives each page.

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
use crate::harness::objects::{config_map, pod_on_node, widget, widget_definition};
use crate::harness::shared::Shared;

const JSON: &str = "application/json";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const PARTIAL: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
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

/// Pages through the lists with all limits. Every page must be the same from
/// all three servers, and each is asked with every token.
async fn page_through(sample: &Sample, selectors: &[&str]) {
    let servers = Servers::get();
    servers.reach(&sample.lists[0], sample.version).await;
    for list in &sample.lists {
        for selector in selectors {
            for accept in [JSON, TABLE, PARTIAL] {
                for limit in [1, 2, OBJECTS - 1, OBJECTS, 0] {
                    let query = format!("{list}?limit={limit}{selector}");
                    let exact = format!(
                        "{query}&resourceVersion={}&resourceVersionMatch=Exact",
                        sample.version
                    );
                    let mut page = servers.same(&exact, accept).await;
                    for _ in 0..PAGES {
                        let Some(token) = token_of(&page) else {
                            break;
                        };
                        page = servers
                            .same(&format!("{query}&continue={token}"), accept)
                            .await;
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn pages_of_pods() {
    let admin = Cluster::shared().admin_client();
    let sample = sample(&admin, "/api/v1", "pods", |name, n| {
        pod_on_node(name, labels(n), &format!("n{}", n % 2))
    })
    .await;
    page_through(
        &sample,
        &[
            "",
            "&labelSelector=odd%3D1",
            "&labelSelector=odd%3D7",
            "&fieldSelector=spec.nodeName%3Dn0",
            "&fieldSelector=metadata.name%3Do-2,spec.nodeName%3Dn0",
        ],
    )
    .await;
}

#[tokio::test]
async fn pages_of_config_maps() {
    let admin = Cluster::shared().admin_client();
    let sample = sample(&admin, "/api/v1", "configmaps", |name, n| {
        config_map(name, labels(n), json!({ "n": n.to_string() }))
    })
    .await;
    let ns = sample.lists[1].split('/').nth(4).expect("namespace");
    page_through(
        &sample,
        &[
            "",
            "&labelSelector=odd%3D0",
            "&fieldSelector=metadata.name!%3Do-3",
            &format!("&fieldSelector=metadata.namespace%3D{ns}"),
        ],
    )
    .await;
}

#[tokio::test]
async fn pages_of_nodes() {
    let admin = Cluster::shared().admin_client();
    for list in ["/api/v1/nodes", "/api/v1/namespaces"] {
        Servers::get().warm(list).await;
    }
    let mark = unique("node");
    let mut version = 0;
    for n in 0..OBJECTS {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": format!("{mark}-{n}"), "labels": { "mark": mark } },
        });
        let made = admin.post("/api/v1/nodes", &node).await;
        version = version_of(&made.expect(201));
    }
    let sample = Sample {
        lists: vec!["/api/v1/nodes".to_owned()],
        version,
    };
    let name = format!("&fieldSelector=metadata.name%3D{mark}-2");
    let label = format!("&labelSelector=mark%3D{mark}");
    page_through(&sample, &["", &label, &name]).await;
    let namespaces = Sample {
        lists: vec!["/api/v1/namespaces".to_owned()],
        version: version_of(
            &admin
                .get(&format!(
                    "/api/v1/namespaces/{}",
                    Cluster::shared().namespace("chunked").await
                ))
                .await
                .expect(200),
        ),
    };
    page_through(&namespaces, &["", "&fieldSelector=status.phase%3DActive"]).await;
}

#[tokio::test]
async fn pages_of_custom_resources() {
    let admin = Cluster::shared().admin_client();
    let group = format!("{}.chunked.test", unique("crd"));
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = admin.post(definitions, &widget_definition(&group)).await;
    made.expect(201);
    let base = format!("/apis/{group}/v1");
    eventually("served", Duration::from_secs(30), || async {
        let path = format!("{base}/namespaces/default/widgets");
        let made = admin.post(&path, &widget(&group, "first", "red", 1)).await;
        [201, 409].contains(&made.status.as_u16())
    })
    .await;
    let sample = sample(&admin, &base, "widgets", |name, n| {
        let mut object = widget(&group, name, if n % 2 == 0 { "red" } else { "blue" }, 1);
        object["metadata"]["labels"] = labels(n);
        object
    })
    .await;
    page_through(&sample, &["", "&labelSelector=odd%3D1"]).await;
}

/// The first pages of the newest state. The token contains the list's version, which
/// may differ between servers; everything else is the same.
#[tokio::test]
async fn first_pages_of_the_newest_state() {
    let servers = Servers::get();
    let sample = sample(&servers.direct, "/api/v1", "pods", |name, n| {
        pod_on_node(name, labels(n), &format!("n{}", n % 2))
    })
    .await;
    servers.reach(&sample.lists[0], sample.version).await;
    let ns = sample.lists[1].split('/').nth(4).expect("namespace");
    let narrowed = format!("&fieldSelector=metadata.namespace%3D{ns}");
    let both = format!("{narrowed},metadata.name%3Do-2");
    let newest = format!(
        "resourceVersion={}&resourceVersionMatch=NotOlderThan",
        sample.version
    );
    for (list, selector) in [
        (&sample.lists[1], ""),
        (&sample.lists[1], "&labelSelector=odd%3D0"),
        (&sample.lists[1], "&fieldSelector=spec.nodeName%3Dn0"),
        (&sample.lists[1], "&fieldSelector=spec.nodeName%3Dn1"),
        (&sample.lists[1], "&fieldSelector=metadata.name%3Do-2"),
        (&sample.lists[0], &narrowed),
        (&sample.lists[0], &both),
    ] {
        for limit in 1..=OBJECTS {
            let path = format!("{list}?{newest}&limit={limit}{selector}");
            let expected = masked(&ask(&servers.direct, &path, JSON).await);
            for front in &servers.fronts {
                let answer = ask(front, &path, JSON).await;
                assert_eq!(unmet(&path, JSON, &answer), "", "{path}");
                assert_eq!(masked(&answer), expected, "{path}");
            }
        }
    }
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

/// A list stays at the version of its first page, whichever server gives the pages
/// and whatever is written in the meantime. Earlier states can be requested too.
#[tokio::test]
async fn writes_between_pages_are_not_seen() {
    let servers = Servers::get();
    let admin = &servers.direct;
    servers.warm("/api/v1/configmaps").await;
    let ns = Cluster::shared().namespace("chunked").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let mut states = Vec::new();
    let mut present: Vec<String> = Vec::new();
    for n in 0..12 {
        let name = format!("o-{n}");
        let made = admin
            .post(&list, &config_map(&name, json!({}), json!({})))
            .await;
        present.push(name);
        present.sort();
        states.push((version_of(&made.expect(201)), present.clone()));
    }
    // A client in mode Strict starts like this. The first page comes from a shared
    // read.
    let query = format!("{list}?limit=3");
    let first = ask(&servers.fronts[0], &query, JSON).await;
    let listed = version_of(&first.expect(200));
    let mut seen = names(&first);
    let mut token = token_of(&first).expect("more");
    let mut n = 0;
    while !token.is_empty() {
        n += 1;
        let gone = format!("{list}/o-{n}");
        let patch = json!({ "data": { "n": n.to_string() } });
        let path = format!("{list}/o-{}", n + 1);
        admin.delete(&gone).await.expect(200);
        present.retain(|name| *name != format!("o-{n}"));
        let changed = admin.patch(&path, "merge-patch+json", &patch).await;
        let version = version_of(&changed.expect(200));
        states.push((version, present.clone()));
        servers.reach(&list, version).await;
        let page = servers
            .same(&format!("{query}&continue={token}"), JSON)
            .await;
        assert_eq!(version_of(&page.json()), listed);
        seen.extend(names(&page));
        token = token_of(&page).unwrap_or_default();
    }
    assert_eq!(seen, states[11].1);
    for (version, expected) in &states {
        for query in [
            format!("resourceVersion={version}&resourceVersionMatch=Exact"),
            format!("resourceVersion={version}&limit=500"),
            format!("resourceVersion={version}&limit=2"),
            format!(
                "resourceVersion={version}&resourceVersionMatch=Exact&fieldSelector=metadata.name%3Do-2"
            ),
        ] {
            let page = servers.same(&format!("{list}?{query}"), JSON).await;
            assert_eq!(version_of(&page.json()), *version);
            let found = names(&page);
            assert!(found.iter().all(|name| expected.contains(name)), "{query}");
            assert!(
                !query.ends_with("limit=500") || found == *expected,
                "{query}"
            );
        }
    }
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
async fn versions_from_the_future() {
    let servers = Servers::get();
    let list = "/api/v1/configmaps";
    let far = token(json!({"v": "meta.k8s.io/v1", "rv": 999_999_999, "start": "/a"}));
    let paths = [
        format!("{list}?resourceVersion=999999999&resourceVersionMatch=Exact"),
        format!("{list}?resourceVersion=999999999&limit=5"),
        format!("{list}?resourceVersion=999999999&resourceVersionMatch=NotOlderThan&limit=5"),
        format!("{list}?limit=5&continue={far}"),
    ];
    let mut both = Differential::new(servers.direct, servers.fronts[0].clone());
    let future = Expect::Bypass("future_version");
    let found = {
        let asked = paths
            .iter()
            .map(|path| both.difference(future, Method::GET, path, &[], ""));
        futures::future::join_all(asked).await
    };
    both.add(found);
    both.finish();
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

/// The test has its own cluster, since it discards the cluster's history.
#[tokio::test]
async fn what_nobody_has_any_more() {
    let mut cluster = Cluster::leased(&[]).await;
    let admin = cluster.admin_client();
    let ns = cluster.namespace("chunked").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    let mut version = 0;
    for n in 0..OBJECTS {
        let made = admin
            .post(&list, &config_map(&format!("o-{n}"), json!({}), json!({})))
            .await;
        version = version_of(&made.expect(201));
    }
    cluster.etcd.compact(version).await;
    // kube-apiserver's cache still has what etcd has forgotten, so the server is
    // restarted.
    cluster.apiserver.start_again();
    cluster.wait_ready().await;
    let admin = cluster.admin_client();
    let strict = Apifront::start(&cluster, |_| {}).await;
    let fresh = Apifront::start(&cluster, |c| c["cache"]["consistency"] = json!("Fresh")).await;
    for (mode, front) in [("Strict", strict), ("Fresh", fresh)] {
        let client = front.admin_client();
        front
            .warm(&client, "/api/v1/configmaps?resourceVersion=0")
            .await;
        let old = token(json!({"v": "meta.k8s.io/v1", "rv": 3, "start": "/o-1\u{0}"}));
        let mut both = Differential::new(admin.clone(), client.clone());
        let gone = Expect::Bypass("snapshot_gone");
        for query in [
            "resourceVersion=3&resourceVersionMatch=Exact",
            "resourceVersion=3&limit=2",
        ] {
            both.expect(gone).get(&format!("{list}?{query}")).await;
            let answer = ask(&client, &format!("{list}?{query}"), JSON).await;
            answer.expect_status(
                410,
                "Expired",
                "The resourceVersion for the provided list is too old.",
            );
        }
        let page = format!("{list}?limit=2&continue={old}");
        both.expect(gone).get(&page).await;
        both.finish();
        let gone = ask(&client, &page, JSON).await;
        assert!(oracle() || gone.header("x-apifront-cache").ends_with("snapshot_gone"));
        let token = gone.expect(410)["metadata"]["continue"]
            .as_str()
            .expect("a token to go on with")
            .to_owned();
        let rest = format!("{list}?limit=2&continue={token}");
        let (direct, through) = (
            ask(&admin, &rest, JSON).await,
            ask(&client, &rest, JSON).await,
        );
        assert_eq!(names(&direct), ["o-2", "o-3"]);
        assert_eq!(masked(&direct), masked(&through));
        assert_eq!(unmet(&rest, JSON, &through), "", "{mode}");
        // From here on the list is consistent again.
        let token = token_of(&through).expect("more");
        let rest = ask(&client, &format!("{list}?continue={token}"), JSON).await;
        rest.expect(200);
        assert_eq!(names(&rest), ["o-4", "o-5"]);
        front.stop().await;
    }
}
