//! Shadow mode: the upstream answers, and apifront compares this with the answer
//! that the cache would have given.

mod planted;
mod rights;

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::eventually;
use crate::harness::expect::DEBUG;
use crate::harness::objects::{config_map, widget_definition};
use crate::harness::watch::Watch;

const GROUP: &str = "shadow.test";
const SOON: Duration = Duration::from_secs(30);

/// Clients' Accept headers, and the representations' names in reports.
const ACCEPTED: [(&str, &str); 7] = [
    ("application/json", "json"),
    ("application/yaml", "yaml"),
    ("application/vnd.kubernetes.protobuf", "protobuf"),
    ("application/json;as=Table;v=v1;g=meta.k8s.io", "table"),
    (
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "partial_object_metadata_json",
    ),
    (
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "partial_object_metadata_protobuf",
    ),
    ("text/html", "other"),
];

async fn start(cluster: &Cluster, change: impl FnOnce(&mut Value)) -> Apifront {
    Apifront::start(cluster, |config| {
        config["cache"] = json!({
            "mode": "Shadow",
            "shadow": { "samplingRatePerMillion": 1_000_000 },
        });
        change(config);
    })
    .await
}

async fn report(front: &Apifront) -> Value {
    front.admin_client().get("/debug/shadow").await.expect(200)
}

/// Returns what a report counts of a resource. It is null before the first comparison.
fn counted(report: &Value, resource: &str, verb: &str, representation: &str) -> Value {
    let with = |list: &Value, key: &str, value: &str| {
        let found = list.as_array().into_iter().flatten();
        let found = found.filter(|one| one[key] == value).cloned();
        Value::from(found.collect::<Vec<_>>())
    };
    let resources = with(&report["resources"], "resource", resource);
    let verbs = with(&resources[0]["comparisons"], "verb", verb);
    with(&verbs, "representation", representation)[0].clone()
}

/// Waits until a resource is cached, which the would-be answers show.
async fn warm(front: &Apifront, path: &str, resource: &str) {
    let client = front.admin_client();
    eventually("the cache would answer", SOON, || async {
        client.get(path).await;
        let report = report(front).await;
        let all = report["resources"].as_array().expect("resources").clone();
        let found = all.iter().find(|one| one["resource"] == resource);
        found.is_some_and(|one| one["wouldAnswer"].as_u64() > Some(0))
    })
    .await;
}

fn assert_same(report: &Value) {
    assert_eq!(report["differences"], json!([]), "{report:#}");
    assert_eq!(report["comparisons"]["differences"], 0, "{report:#}");
}

fn matches(report: &Value, resource: &str, verb: &str, representation: &str) -> u64 {
    let counts = counted(report, resource, verb, representation);
    counts["matches"].as_u64().unwrap_or_default()
}

#[tokio::test]
async fn upstream_answers_and_every_representation_is_compared() {
    skip_under_oracle!("kube-apiserver has no shadow mode");
    let cluster = &Cluster::leased(&[]).await;
    let front = start(cluster, |_| {}).await;
    let client = front.admin_client();
    let ns = cluster.namespace("shadow").await;
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    for n in 0..30 {
        let object = config_map(&format!("a{n}"), json!({"app": "x"}), json!({"n": "1"}));
        client.post(&list, &object).await.expect(201);
    }
    warm(&front, &list, "configmaps").await;
    for (accept, _) in ACCEPTED {
        for path in [
            list.clone(),
            format!("{list}?limit=7"),
            format!("{list}?resourceVersion=0"),
            format!("{list}?labelSelector=app%3Dx"),
            format!("{list}/a3"),
            format!("{list}/a3?resourceVersion=0"),
            format!("{list}/none"),
        ] {
            let headers = [("accept", accept), DEBUG, ("accept-encoding", "gzip")];
            let answer = client.send(http::Method::GET, &path, &headers, "").await;
            let cache = answer.header("x-apifront-cache");
            // Undecodable parameters are a bypass by themselves.
            assert!(
                cache.starts_with("bypass; reason="),
                "{path} {accept}: {cache}"
            );
        }
    }
    for (accept, representation) in &ACCEPTED[..6] {
        for (verb, least) in [("list", 4), ("get", 2)] {
            eventually(&format!("{verb} {accept} compared"), SOON, || async {
                let report = report(&front).await;
                // An object cannot be a list, and the upstream says so.
                matches(&report, "configmaps", verb, representation) >= least
                    || (verb == "get" && representation.starts_with("partial"))
            })
            .await;
        }
    }
    eventually("objects that are not there are compared", SOON, || async {
        matches(&report(&front).await, "configmaps", "get", "other") >= 4
    })
    .await;
    let report = report(&front).await;
    assert_same(&report);
    let none = report["comparisons"]["notComparable"].as_object();
    assert_eq!(none.map(|none| none.len()), Some(0), "{report:#}");
    front.stop().await;
}

/// Bodies above 128 KB are compressed.
#[tokio::test]
async fn compressed_lists_and_custom_resources_are_compared() {
    skip_under_oracle!("kube-apiserver has no shadow mode");
    let cluster = &Cluster::leased(&[]).await;
    let front = start(cluster, |_| {}).await;
    let client = front.admin_client();
    let ns = cluster.namespace("shadow").await;
    let large = json!({ "k": "v".repeat(60_000) });
    let list = format!("/api/v1/namespaces/{ns}/configmaps");
    for n in 0..6 {
        let object = config_map(&format!("a{n}"), json!({}), large.clone());
        client.post(&list, &object).await.expect(201);
    }
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    client
        .post(path, &widget_definition(GROUP))
        .await
        .expect(201);
    let widgets = format!("/apis/{GROUP}/v1/namespaces/{ns}/widgets");
    eventually("the definition is served", SOON, || async {
        client.get(&widgets).await.status == 200
    })
    .await;
    let widget = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "metadata": { "name": "w" },
        "spec": { "size": 3 },
    });
    client.post(&widgets, &widget).await.expect(201);
    warm(&front, &list, "configmaps").await;
    warm(&front, &widgets, "widgets").await;
    let gzip = [("accept-encoding", "gzip")];
    let answer = client.send(http::Method::GET, &list, &gzip, "").await;
    assert_eq!(answer.header("content-encoding"), "gzip");
    for (accept, _) in &ACCEPTED[..2] {
        let answer = client.get_as(&widgets, accept).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    client
        .get_as(&format!("{widgets}/w"), ACCEPTED[3].0)
        .await
        .expect(200);
    eventually("all are compared", SOON, || async {
        let report = report(&front).await;
        matches(&report, "configmaps", "list", "json") >= 2
            && matches(&report, "widgets", "list", "yaml") >= 1
            && matches(&report, "widgets", "get", "table") >= 1
    })
    .await;
    assert_same(&report(&front).await);
    front.stop().await;
}

/// The ways in which a watch may begin, and the least number of its events that are
/// compared.
const WATCHES: [(&str, u64); 5] = [
    ("resourceVersion=VERSION", 3),
    ("resourceVersion=VERSION&allowWatchBookmarks=true", 3),
    ("resourceVersion=VERSION&labelSelector=app%3Dx", 3),
    (
        "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
        8,
    ),
    (
        "sendInitialEvents=false&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan",
        3,
    ),
];

#[tokio::test]
async fn watches_are_followed_event_by_event() {
    skip_under_oracle!("kube-apiserver has no shadow mode");
    let cluster = &Cluster::leased(&[]).await;
    for (accept, representation) in [ACCEPTED[3], ACCEPTED[0], ACCEPTED[4]] {
        let accept = accept.replace("MetadataList", "Metadata");
        let front = start(cluster, |_| {}).await;
        let client = front.admin_client();
        let ns = cluster.namespace("shadow").await;
        let list = format!("/api/v1/namespaces/{ns}/configmaps");
        for n in 0..5 {
            let object = config_map(&format!("a{n}"), json!({"app": "x"}), json!({"n": "1"}));
            client.post(&list, &object).await.expect(201);
        }
        warm(&front, &list, "configmaps").await;
        let listed = client.get(&list).await.expect(200);
        let version = listed["metadata"]["resourceVersion"]
            .as_str()
            .expect("version");
        let mut expected = 0;
        for (query, least) in WATCHES {
            let query = query.replace("VERSION", version);
            let path = format!("{list}?watch=1&timeoutSeconds=6&{query}");
            expected += least;
            let client = client.clone().with_header("accept", &accept);
            let mut watch = Watch::open(&client, &path).await;
            tokio::spawn(async move { watch.rest().await });
        }
        let object = config_map("b", json!({"app": "x"}), json!({"n": "1"}));
        client.post(&list, &object).await.expect(201);
        let patch = json!({"data": {"n": "2"}});
        let path = format!("{list}/b");
        client
            .patch(&path, "merge-patch+json", &patch)
            .await
            .expect(200);
        client.delete(&path).await.expect(200);
        eventually(&format!("{expected} events as {accept}"), SOON, || async {
            let report = report(&front).await;
            assert_same(&report);
            matches(&report, "configmaps", "watch", representation) >= expected
        })
        .await;
        front.stop().await;
    }
}

/// The self-check is a part of shadow mode, and resources can leave the mode one by
/// one.
#[tokio::test]
async fn resources_leave_shadow_mode_one_by_one() {
    skip_under_oracle!("kube-apiserver has no shadow mode");
    let cluster = Cluster::shared();
    let front = start(cluster, |config| {
        config["cache"]["resourceModes"] = json!([{ "resources": ["secrets"], "mode": "Serve" }]);
        config["cache"]["selfCheck"] = json!({ "interval": "1s" });
    })
    .await;
    let client = front.admin_client();
    let ns = cluster.namespace("shadow").await;
    let secrets = format!("/api/v1/namespaces/{ns}/secrets");
    front.warm(&client, &secrets).await;
    let nodes = "/api/v1/nodes";
    warm(&front, nodes, "nodes").await;
    assert_eq!(reason(&client, nodes).await, "bypass; reason=shadow");
    eventually("a self-check is reported", SOON, || async {
        client.get(nodes).await;
        let report = report(&front).await;
        let all = report["resources"].as_array().expect("resources").clone();
        assert!(
            all.iter().all(|one| one["resource"] != "secrets"),
            "{report:#}"
        );
        let found = all.iter().find(|one| one["resource"] == "nodes");
        found.is_some_and(|one| one["selfCheck"]["result"] == "match")
    })
    .await;
    let status = client.get("/status.json").await.expect(200);
    let shown = status["shadow"]["resources"].as_array().expect("resources");
    let nodes_shown = shown.iter().find(|one| one["resource"] == "nodes");
    assert!(
        nodes_shown.is_some_and(|one| one["matches"].as_u64() >= Some(1)),
        "{status:#}"
    );
    let labels = [("result", "hit")];
    assert!(front.metric("apifront_shadow_reads_total", &labels).await >= 1.0);
    let labels = [("resource", "nodes"), ("result", "match")];
    assert!(
        front
            .metric("apifront_shadow_comparisons_total", &labels)
            .await
            >= 1.0
    );
    front.stop().await;
}

async fn reason(client: &Client, path: &str) -> String {
    let answer = client.send(http::Method::GET, path, &[DEBUG], "").await;
    answer.expect(200);
    answer.header("x-apifront-cache").to_owned()
}
