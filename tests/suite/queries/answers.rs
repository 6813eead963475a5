//! Answers are what a list of the same caller shows, selected, ordered, counted and cut
//! by hand.

use std::cmp::Ordering;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use super::{QUERIES, enable, query};
use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::{Cluster, Once, once, unique};
use crate::harness::eventually;
use crate::harness::expect::DEBUG;
use crate::harness::kubectl::Kubectl;
use crate::harness::objects::{config_map, pod_on_node, widget, widget_definition};
use crate::harness::volume;
use crate::kubectl::kubeconfig_of;

fn front() -> &'static Apifront {
    static FRONT: Once<Apifront> = Once::new();
    once(&FRONT, || Apifront::start(Cluster::shared(), enable))
}

/// Returns a client that asks whether answers came from memory.
fn debugged() -> Client {
    front().admin_client().with_header(DEBUG.0, DEBUG.1)
}

/// A value of an object, as CEL and as a function of the object's JSON.
type Model = (&'static str, fn(&Value) -> Option<Value>);

const VALUES: [Model; 6] = [
    ("object.spec.nodeName", |o| {
        o["spec"].get("nodeName").cloned()
    }),
    ("object.metadata.labels.tier", |o| {
        o["metadata"]["labels"].get("tier").cloned()
    }),
    ("object.spec.containers.map(c, c.image)", |o| {
        let containers = o["spec"]["containers"].as_array()?;
        Some(containers.iter().map(|c| c["image"].clone()).collect())
    }),
    (
        "has(object.spec.nodeName) ? object.spec.nodeName.startsWith('n') : false",
        |o| {
            let node = o["spec"].get("nodeName").and_then(Value::as_str);
            Some(json!(node.is_some_and(|node| node.starts_with('n'))))
        },
    ),
    ("int(object.metadata.annotations['weight'])", |o| {
        let weight = o["metadata"]["annotations"]["weight"].as_str()?;
        Some(json!(weight.parse::<i64>().ok()?))
    }),
    ("object.metadata.uid + object.kind", |o| {
        Some(json!(format!("{}Pod", o["metadata"]["uid"].as_str()?)))
    }),
];

const CONDITIONS: [Model; 4] = [
    ("true", |_| Some(json!(true))),
    ("object.metadata.labels.tier == 'web'", |o| {
        Some(json!(o["metadata"]["labels"].get("tier")? == "web"))
    }),
    (
        "object.spec.containers.exists(c, c.image.endsWith(':1'))",
        |o| {
            let containers = o["spec"]["containers"].as_array()?;
            let is_one = |c: &Value| {
                c["image"]
                    .as_str()
                    .is_some_and(|image| image.ends_with(":1"))
            };
            Some(json!(containers.iter().any(is_one)))
        },
    ),
    ("int(object.metadata.annotations['weight']) % 2 == 0", |o| {
        let weight: i64 = o["metadata"]["annotations"]["weight"]
            .as_str()?
            .parse()
            .ok()?;
        Some(json!(weight % 2 == 0))
    }),
];

fn compare(a: Option<Value>, b: Option<Value>) -> Ordering {
    let rank = |value: &Option<Value>| match value {
        Some(Value::Bool(_)) => 0,
        Some(Value::Number(_)) => 1,
        Some(Value::String(_)) => 2,
        Some(Value::Array(_) | Value::Object(_)) => 3,
        Some(Value::Null) | None => 4,
    };
    match (&a, &b) {
        (Some(Value::Number(a)), Some(Value::Number(b))) => a.as_i64().cmp(&b.as_i64()),
        (Some(Value::String(a)), Some(Value::String(b))) => a.cmp(b),
        (Some(Value::Bool(a)), Some(Value::Bool(b))) => a.cmp(b),
        (Some(a @ Value::Array(_)), Some(b @ Value::Array(_))) => a.to_string().cmp(&b.to_string()),
        _ => rank(&a).cmp(&rank(&b)),
    }
}

/// Compares as an order does: what has no value comes last.
fn directed(a: Option<Value>, b: Option<Value>, descending: bool) -> Ordering {
    let is_absent = |value: &Option<Value>| value.as_ref().is_none_or(Value::is_null);
    match is_absent(&a).cmp(&is_absent(&b)) {
        Ordering::Equal if descending => compare(b, a),
        Ordering::Equal => compare(a, b),
        order => order,
    }
}

fn pods(rng: &mut StdRng, n: usize) -> Value {
    let node = match rng.random_range(0..4) {
        0 => None,
        n => Some(["n1", "n2", "m1"][n - 1]),
    };
    let app = ["a", "b"][n / 2 % 2];
    let mut pod = pod_on_node(&format!("p{n}"), json!({ "app": app }), "x");
    match node {
        Some(node) => pod["spec"]["nodeName"] = json!(node),
        None => drop(pod["spec"].as_object_mut().unwrap().remove("nodeName")),
    }
    if rng.random_bool(0.7) {
        let tier = ["web", "db"][rng.random_range(0..2)];
        pod["metadata"]["labels"]["tier"] = json!(tier);
    }
    if rng.random_bool(0.7) {
        pod["metadata"]["annotations"] = json!({ "weight": rng.random_range(0..5).to_string() });
    }
    let image = format!(
        "example.test/{}:{}",
        ["x", "y"][rng.random_range(0..2)],
        rng.random_range(1..3)
    );
    pod["spec"]["containers"][0]["image"] = json!(image);
    pod
}

#[tokio::test]
async fn answers_are_what_a_list_shows() {
    skip_under_oracle!("kube-apiserver has no queries");
    let seed = volume::seed("answers_are_what_a_list_shows");
    let mut rng = StdRng::seed_from_u64(seed);
    let cluster = Cluster::shared();
    let (admin, through) = (cluster.admin_client(), debugged());
    let namespaces = [
        cluster.namespace("query").await,
        cluster.namespace("query").await,
    ];
    for n in 0..24 {
        let path = format!("/api/v1/namespaces/{}/pods", namespaces[n % 2]);
        admin.post(&path, &pods(&mut rng, n)).await.expect(201);
    }
    for round in 0..150 {
        let picked = match rng.random_range(0..3) {
            2 => namespaces.to_vec(),
            n => vec![namespaces[n].clone()],
        };
        let labels = ["", "app=a", "tier!=web"][rng.random_range(0..3)];
        let fields = ["", "spec.nodeName=n1"][usize::from(rng.random_bool(0.2))];
        let (condition, is_selected) = CONDITIONS[rng.random_range(0..CONDITIONS.len())];
        let order: Vec<(usize, bool)> = (0..rng.random_range(0..3))
            .map(|_| (rng.random_range(0..VALUES.len()), rng.random_bool(0.5)))
            .collect();
        let counted = rng.random_range(0..VALUES.len() - 1);
        let (limit, offset) = (rng.random_range(1..10), rng.random_range(0..12));
        let spec = json!({
            "resource": { "version": "v1", "resource": "pods" },
            "namespaces": picked,
            "labelSelector": labels,
            "fieldSelector": fields,
            "where": condition,
            "columns": VALUES.iter().enumerate().map(|(n, (source, _))| {
                json!({ "name": format!("c{n}"), "expression": source })
            }).collect::<Vec<_>>(),
            "orderBy": order.iter().map(|(n, descending)| {
                json!({ "column": format!("c{n}"), "descending": descending })
            }).collect::<Vec<_>>(),
            "countBy": [VALUES[counted].0],
            "limit": limit,
            "offset": offset,
        });
        let answer = through.post(QUERIES, &query(&spec)).await;
        assert!(answer.is_hit(), "{}", answer.text());
        let status = answer.expect(201)["status"].clone();
        let mut expected = Vec::new();
        let mut sorted = picked.clone();
        sorted.sort();
        for namespace in &sorted {
            let path = format!(
                "/api/v1/namespaces/{namespace}/pods?labelSelector={labels}&fieldSelector={fields}"
            );
            let list = admin.get(&path).await.expect(200);
            expected.extend(list["items"].as_array().unwrap().clone());
        }
        expected.retain(|pod| is_selected(pod) == Some(json!(true)));
        expected.sort_by(|a, b| {
            let keys = order
                .iter()
                .map(|(n, descending)| directed(VALUES[*n].1(a), VALUES[*n].1(b), *descending));
            keys.fold(Ordering::Equal, Ordering::then)
        });
        let told = format!("round {round}, seed {seed}: {spec:#}");
        assert_eq!(status["total"], expected.len(), "{told}");
        let rows = expected.iter().skip(offset).take(limit).map(|pod| {
            json!({
                "namespace": pod["metadata"]["namespace"],
                "name": pod["metadata"]["name"],
                "uid": pod["metadata"]["uid"],
                "cells": VALUES.iter().map(|(_, value)| value(pod)).collect::<Vec<_>>(),
            })
        });
        assert_eq!(status["rows"], rows.collect::<Value>(), "{told}");
        let mut total = 0;
        for count in status["counts"].as_array().into_iter().flatten() {
            let is_counted =
                |pod: &&Value| VALUES[counted].1(pod).unwrap_or_default() == count["values"][0];
            let here = expected.iter().filter(is_counted).count();
            assert_eq!(count["count"], here, "{told}");
            total += here;
        }
        assert_eq!(total, expected.len(), "{told}");
    }
}

/// The pages of a query are of one state, whatever is written meanwhile.
#[tokio::test]
async fn pages_are_of_one_state() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::shared();
    let (admin, through) = (cluster.admin_client(), front().admin_client());
    let namespace = cluster.namespace("query").await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    for n in 0..10 {
        let map = config_map(&format!("m{n}"), json!({}), json!({ "n": n.to_string() }));
        admin.post(&maps, &map).await.expect(201);
    }
    let spec = json!({
        "resource": { "version": "v1", "resource": "configmaps" },
        "namespaces": [namespace],
        "where": "'n' in object.data",
        "columns": [{ "name": "n", "expression": "object.data.n" }],
        "orderBy": [{ "expression": "object.data.n", "descending": true }],
        "limit": 4,
    });
    let mut next = query(&spec);
    let (mut seen, mut versions) = (Vec::new(), Vec::new());
    loop {
        let answer = through.post(QUERIES, &next).await.expect(201);
        let status = &answer["status"];
        assert_eq!(status["total"], 10, "{status}");
        versions.push(status["resourceVersion"].clone());
        let rows = status["rows"].as_array().unwrap();
        seen.extend(
            rows.iter()
                .map(|row| row["cells"][0].as_str().unwrap().to_owned()),
        );
        let Some(token) = status["continue"].as_str() else {
            break;
        };
        next["spec"]["continue"] = json!(token);
        // These would change every page.
        let map = config_map(&format!("x{}", seen.len()), json!({}), json!({ "n": "99" }));
        admin.post(&maps, &map).await.expect(201);
        admin
            .delete(&format!("{maps}/m{}", seen.len() / 4))
            .await
            .expect(200);
    }
    let expected: Vec<String> = (0..10).rev().map(|n| n.to_string()).collect();
    assert_eq!(seen, expected);
    versions.dedup();
    assert_eq!(versions.len(), 1, "{versions:?}");
    // A new query shows what was written.
    let answer = through.post(QUERIES, &query(&spec)).await.expect(201);
    assert_eq!(answer["status"]["total"], 10);
    assert_eq!(answer["status"]["rows"][0]["name"], "x4");
    // A state that is gone cannot be continued.
    let token = next["spec"]["continue"].as_str().unwrap();
    let mut token: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).unwrap()).unwrap();
    token["rv"] = json!(1);
    let mut old = query(&spec);
    old["spec"]["continue"] = json!(URL_SAFE_NO_PAD.encode(token.to_string()));
    let expired = through.post(QUERIES, &old).await;
    assert_eq!(expired.expect(410)["reason"], "Expired");
}

/// A query sees what was written before it.
#[tokio::test]
async fn a_query_sees_the_write_before_it() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::shared();
    let (admin, through) = (cluster.admin_client(), front().admin_client());
    let namespace = cluster.namespace("query").await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let spec = json!({
        "resource": { "version": "v1", "resource": "configmaps" },
        "namespaces": [namespace],
        "where": "has(object.data) && 'n' in object.data",
    });
    for n in 1..=20 {
        let map = config_map(&format!("m{n}"), json!({}), json!({ "n": "1" }));
        admin.post(&maps, &map).await.expect(201);
        let answer = through.post(QUERIES, &query(&spec)).await.expect(201);
        assert_eq!(answer["status"]["total"], n, "{answer}");
    }
    let mut exact = query(&spec);
    let newest = through.post(QUERIES, &exact).await.expect(201);
    exact["spec"]["resourceVersion"] = newest["status"]["resourceVersion"].clone();
    exact["spec"]["resourceVersionMatch"] = json!("NotOlderThan");
    through.post(QUERIES, &exact).await.expect(201);
    exact["spec"]["resourceVersion"] = json!("0");
    through.post(QUERIES, &exact).await.expect(201);
}

/// Custom resources are stored as JSON, and have fields of any form.
#[tokio::test]
async fn custom_resources_are_queried_too() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::shared();
    let (admin, through) = (cluster.admin_client(), front().admin_client());
    let namespace = cluster.namespace("query").await;
    let group = format!("{}.example.com", unique("queried"));
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin
        .post(definitions, &widget_definition(&group))
        .await
        .expect(201);
    let widgets = format!("/apis/{group}/v1/namespaces/{namespace}/widgets");
    eventually("widgets are served", Duration::from_secs(30), || async {
        admin.get(&widgets).await.status == 200
    })
    .await;
    for (name, color, size) in [("a", "red", 3), ("b", "blue", 1), ("c", "red", 2)] {
        let widget = widget(&group, name, color, size);
        admin.post(&widgets, &widget).await.expect(201);
    }
    let spec = json!({
        "resource": { "group": group, "version": "v1", "resource": "widgets" },
        "namespaces": [namespace],
        "columns": [{ "name": "kind", "expression": "object.kind" }],
        "orderBy": [{ "expression": "object.spec.size" }],
        "countBy": ["object.spec.color"],
    });
    let answer = through.post(QUERIES, &query(&spec)).await.expect(201);
    let status = &answer["status"];
    let names: Vec<&Value> = status["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["name"])
        .collect();
    assert_eq!(names, ["b", "c", "a"], "{status}");
    assert_eq!(status["rows"][0]["cells"], json!(["Widget"]));
    let counts = json!([{ "values": ["red"], "count": 2 }, { "values": ["blue"], "count": 1 }]);
    assert_eq!(status["counts"], counts);
    admin
        .delete(&format!("{definitions}/widgets.{group}"))
        .await
        .expect(200);
}

#[tokio::test]
async fn kubectl_creates_a_query_and_prints_its_answer() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::shared();
    let admin = cluster.admin_client();
    let namespace = cluster.namespace("query").await;
    let map = config_map("only", json!({}), json!({ "n": "1" }));
    admin
        .post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &map)
        .await
        .expect(201);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("query.yaml");
    let text = format!(
        "apiVersion: query.apifront.dev/v1alpha1\nkind: Query\nmetadata: {{name: ours}}\nspec:\n  resource: {{version: v1, resource: configmaps}}\n  namespaces: [{namespace}]\n  fieldSelector: metadata.name=only\n  columns:\n  - {{name: value, expression: object.data.n}}\n"
    );
    std::fs::write(&file, text).unwrap();
    let kubectl = Kubectl::new(&kubeconfig_of(cluster, front()));
    let file = file.to_str().unwrap();
    let printed = kubectl
        .run(&[
            "create",
            "-f",
            file,
            "-o",
            "jsonpath={.status.total} {.status.rows[0].cells[0]}",
        ])
        .await
        .ok();
    assert_eq!(printed, "1 1");
    let printed = kubectl
        .run(&["create", "-f", file, "-o", "yaml"])
        .await
        .ok();
    assert!(printed.contains("\n  - cells:\n    - \"1\"\n"), "{printed}");
    let printed = kubectl.run(&["create", "-f", file]).await.ok();
    assert_eq!(printed.trim(), "query.query.apifront.dev/ours created");
}

/// The answer is also YAML, indented or compressed, as the client wants it.
#[tokio::test]
async fn the_answer_has_the_form_that_the_client_wants() {
    skip_under_oracle!("kube-apiserver has no queries");
    let through: Client = front().admin_client();
    let spec = json!({
        "resource": { "version": "v1", "resource": "namespaces" },
        "fieldSelector": "metadata.name=default",
    });
    let body = query(&spec).to_string();
    let ask = async |path: &str, headers: &[(&str, &str)]| {
        through
            .send(http::Method::POST, path, headers, body.clone())
            .await
    };
    let json_type = ("content-type", "application/json");
    let plain = ask(QUERIES, &[json_type]).await;
    assert_eq!(plain.header("content-type"), "application/json");
    let expected = plain.expect(201);
    let yaml = ask(QUERIES, &[json_type, ("accept", "application/yaml")]).await;
    assert_eq!(yaml.status, 201);
    assert_eq!(yaml.header("content-type"), "application/yaml");
    assert!(
        yaml.text()
            .contains("\n  - cells:\n    - default\n    - Active\n"),
        "{}",
        yaml.text()
    );
    let pretty = ask(&format!("{QUERIES}?pretty=true"), &[json_type]).await;
    assert!(
        pretty.text().starts_with("{\n  \"apiVersion\""),
        "{}",
        pretty.text()
    );
    assert_eq!(pretty.expect(201)["spec"], expected["spec"]);
    let yaml_body = "apiVersion: query.apifront.dev/v1alpha1\nkind: Query\nspec: {resource: {version: v1, resource: namespaces}, fieldSelector: metadata.name=default}\n";
    let answer = through
        .send(
            http::Method::POST,
            QUERIES,
            &[("content-type", "application/yaml")],
            yaml_body,
        )
        .await;
    assert_eq!(answer.expect(201)["status"]["total"], 1);
    let html = ask(QUERIES, &[json_type, ("accept", "text/html")]).await;
    assert_eq!(html.expect(406)["reason"], "NotAcceptable");
}

/// A long answer is compressed for a client that accepts it, and for no other.
#[tokio::test]
async fn a_long_answer_is_compressed_if_its_client_accepts_that() {
    skip_under_oracle!("kube-apiserver has no queries");
    let cluster = Cluster::shared();
    let (admin, through) = (cluster.admin_client(), front().admin_client());
    let namespace = cluster.namespace("long").await;
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps");
    let long = "x".repeat(60 << 10);
    for name in ["a", "b", "c"] {
        let map = config_map(name, json!({}), json!({ "long": long }));
        admin.post(&maps, &map).await.expect(201);
    }
    let body = query(&json!({
        "resource": { "version": "v1", "resource": "configmaps" },
        "namespaces": [namespace],
        "columns": [{ "name": "long", "expression": "object.data.long" }],
    }));
    let ask = async |encoding: &str| {
        let headers = [
            ("content-type", "application/json"),
            ("accept-encoding", encoding),
        ];
        let body = body.to_string();
        through
            .send(http::Method::POST, QUERIES, &headers, body)
            .await
    };
    let plain = ask("identity").await;
    assert_eq!(plain.header("content-encoding"), "");
    assert_eq!(plain.expect(201)["status"]["rows"][2]["cells"][0], long);
    let compressed = ask("gzip").await;
    assert_eq!(compressed.header("content-encoding"), "gzip");
    assert!(compressed.body.len() < long.len());
}
