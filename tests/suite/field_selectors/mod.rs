//! Tests field selectors on real objects, with every label that kube-apiserver knows
//! and some unknown ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::client::Client;
use crate::harness::cluster::Cluster;
use crate::harness::differential::Differential;
use crate::harness::eventually;
use crate::harness::expect::Expect;
use crate::harness::manifests;
use crate::harness::objects::{pod, pod_on_node};
use crate::harness::pool::Lease;
use crate::harness::shared::Shared;
use crate::harness::watch::Watch;

const NAMESPACE: &str = "fields";
const GROUP: &str = "fields.example.test";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SOON: Duration = Duration::from_secs(30);

/// Returns a cluster that serves all versions of its groups, and in which nothing
/// changes by itself.
fn cluster() -> Arc<Lease> {
    static CLUSTER: Shared<Lease> = Shared::new();
    CLUSTER.get(|| async {
        let flags = [
            "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true,certificates.k8s.io/v1beta1=true",
            "--feature-gates=ClusterTrustBundle=true,PodCertificateRequest=true",
        ];
        let cluster = Cluster::leased(&flags.map(str::to_owned)).await;
        create(&cluster).await;
        cluster
    })
}

async fn front(cluster: &Cluster) -> Apifront {
    let excluding_nothing = |config: &mut Value| config["cache"]["exclude"] = json!([]);
    Apifront::start(cluster, excluding_nothing).await
}

async fn create(cluster: &Cluster) {
    let admin = cluster.admin_client();
    let objects = manifests::parse(include_str!("objects.yaml"));
    manifests::create(&admin, &objects).await;
    manifests::patch_statuses(&admin, &objects).await;
    let bundle = std::fs::read_to_string(cluster.ca()).expect("the CA");
    let signed = ["example.test/one", "example.test/two"].map(signing_request);
    manifests::create(&admin, &signed).await;
    manifests::create(&admin, &trust_bundles(&bundle)).await;
    create_things(&admin).await;
}

fn signing_request(signer: &str) -> Value {
    let key = rcgen::KeyPair::generate().expect("a key");
    let request = rcgen::CertificateParams::default().serialize_request(&key);
    let pem = request.expect("a request").pem().expect("PEM");
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": { "name": signer.rsplit('/').next() },
        "spec": {
            "request": STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"],
        },
    })
}

fn trust_bundles(bundle: &str) -> [Value; 2] {
    let of = |name: &str, spec: Value| {
        json!({
            "apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
            "metadata": { "name": name }, "spec": spec,
        })
    };
    [
        of("none", json!({ "trustBundle": bundle })),
        of(
            "example.test:one:a",
            json!({ "trustBundle": bundle, "signerName": "example.test/one" }),
        ),
    ]
}

/// Creates the custom resource and its objects.
async fn create_things(admin: &Client) {
    let selectable = [
        ".spec.text",
        ".spec.number",
        ".spec.flag",
        ".status.deep.er",
    ];
    let definition = definition(&selectable);
    admin.post(DEFINITIONS, &definition).await.expect(201);
    let things = things();
    eventually("things are served", SOON, || async {
        admin.get(&things).await.status == 200
    })
    .await;
    for (name, rest) in [
        ("empty", json!({})),
        (
            "full",
            json!({
                "spec": { "text": "a", "number": 12, "flag": true },
                "status": { "deep": { "er": "b" } },
            }),
        ),
        (
            "zero",
            json!({ "spec": { "text": "", "number": 0, "flag": false } }),
        ),
        (
            "odd",
            json!({ "spec": { "text": "1", "number": -9007199254740993i64, "flag": null } }),
        ),
    ] {
        let mut thing = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Thing", "metadata": { "name": name },
        });
        for part in ["spec", "status"] {
            if let Some(part_of_it) = rest.get(part) {
                thing[part] = part_of_it.clone();
            }
        }
        admin.post(&things, &thing).await.expect(201);
    }
}

fn things() -> String {
    format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/things")
}

fn definition(selectable: &[&str]) -> Value {
    let fields: Vec<Value> = selectable
        .iter()
        .map(|p| json!({ "jsonPath": p }))
        .collect();
    let text = json!({ "type": "string" });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("things.{GROUP}") },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": { "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ManyThings" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "selectableFields": fields,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": {
                    "spec": { "type": "object", "properties": {
                        "text": text, "number": { "type": "integer" },
                        "flag": { "type": "boolean", "nullable": true },
                    }},
                    "status": { "type": "object", "properties": {
                        "deep": { "type": "object", "properties": { "er": text } },
                    }},
                }}},
            }],
        },
    })
}

/// The lists in `labels.txt`, and all labels that their field selectors know.
fn known() -> Vec<(String, Vec<&'static str>)> {
    let lines = include_str!("labels.txt").lines();
    let lists = lines.filter(|line| !line.starts_with('#')).map(|line| {
        let (list, labels) = line.split_once(' ').expect("a list and its labels");
        let labels = ["metadata.name"].into_iter().chain(labels.split(' '));
        (list.to_owned(), labels.collect())
    });
    lists.collect()
}

/// Collects every scalar in a value, in a selector's spelling.
fn scalars(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if text.len() < 64 && !text.contains(['=', ',', '\\']) => {
            found.insert(text.clone());
        }
        Value::Bool(_) | Value::Number(_) => {
            found.insert(value.to_string());
        }
        Value::Array(items) => items.iter().for_each(|v| scalars(v, found)),
        Value::Object(members) => members.values().for_each(|v| scalars(v, found)),
        _ => {}
    }
}

/// Returns values that objects have, roughly, at a label's path: the label's last
/// word is looked up as a key.
fn candidates(list: &Value, label: &str) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = ["", "true", "false", "0", "nonsense"]
        .iter()
        .map(ToString::to_string)
        .collect();
    let word = label.rsplit('.').next().unwrap_or(label);
    let like = |key: &str| {
        key == word
            || matches!(
                (word, key),
                ("successful", "succeeded")
                    | ("host", "nodeName")
                    | ("source", "component" | "reportingComponent")
                    | ("podIPs", "ip")
            )
    };
    fn walk(value: &Value, like: &impl Fn(&str) -> bool, found: &mut BTreeSet<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|v| walk(v, like, found)),
            Value::Object(members) => {
                for (key, value) in members {
                    if like(key) {
                        scalars(value, found);
                    } else if key != "managedFields" {
                        walk(value, like, found);
                    }
                }
            }
            _ => {}
        }
    }
    walk(&list["items"], &like, &mut found);
    found
}

#[tokio::test]
async fn every_label_selects_as_upstream() {
    let cluster = cluster();
    let front = front(&cluster).await;
    let client = front.admin_client();
    let mut both = Differential::new(cluster.admin_client(), client.clone());
    let mut compared = 0;
    for (path, labels) in known() {
        front
            .warm(&client, &format!("{path}?resourceVersion=0"))
            .await;
        let list = both.direct.get(&path).await.expect(200);
        for label in labels {
            let values = candidates(&list, label);
            let asked = values.iter().flat_map(|value| {
                ["=", "==", "!="].map(|operator| {
                    let selector = format!("{label}{operator}{value}");
                    format!(
                        "{path}?resourceVersion=0&fieldSelector={}",
                        encoded(&selector)
                    )
                })
            });
            let asked: Vec<String> = asked.collect();
            for path in &asked {
                both.get(path).await;
            }
            compared += usize::from(!asked.is_empty());
        }
    }
    assert!(compared > 60, "only {compared} labels");
    both.finish();
    front.stop().await;
}

#[tokio::test]
async fn what_upstream_does_not_know_it_says_itself() {
    let cluster = cluster();
    let front = front(&cluster).await;
    let mut both = Differential::new(cluster.admin_client(), front.admin_client());
    let unknown_field = Expect::Bypass("field_selector");
    let every: BTreeSet<&str> = known().into_iter().flat_map(|(_, labels)| labels).collect();
    for (path, labels) in known() {
        front
            .warm(&both.front, &format!("{path}?resourceVersion=0"))
            .await;
        let unknown = every.iter().filter(|l| !labels.contains(l)).copied();
        for label in unknown.chain(["name", "metadata.uid", "spec", "", "spec.nope"]) {
            let selector = encoded(&format!("{label}=x"));
            let several = encoded(&format!("metadata.name!=y,{label}!=x"));
            for selector in [selector, several] {
                let path = format!("{path}?resourceVersion=0&fieldSelector={selector}");
                both.expect(unknown_field).get(&path).await;
            }
        }
    }
    both.finish();
    front.stop().await;
}

fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Objects begin and cease to match. Both servers must send the same events.
#[tokio::test]
async fn watches_see_what_comes_and_goes() {
    let cluster = cluster();
    let front = front(&cluster).await;
    let (direct, through) = (cluster.admin_client(), front.admin_client());
    let ns = cluster.namespace("moving").await;
    let pods = format!("/api/v1/namespaces/{ns}/pods");
    front
        .warm(&through, &format!("{pods}?resourceVersion=0"))
        .await;
    direct.post(&pods, &pod("a", json!({}))).await.expect(201);
    let list = direct.get(&pods).await.expect(200);
    let from = list["metadata"]["resourceVersion"]
        .as_str()
        .expect("a version")
        .to_owned();
    let selectors = [
        "status.podIP=10.0.0.7",
        "status.podIP!=10.0.0.7",
        "status.podIPs=10.0.0.7",
        "status.phase=Running,status.podIP!=",
        "spec.host=node-7",
        "spec.hostNetwork=false,spec.nodeName=node-7",
    ];
    let mut watches = Vec::new();
    for selector in selectors {
        let path = format!(
            "{pods}?watch=1&resourceVersion={from}&fieldSelector={}",
            encoded(selector)
        );
        let both = (
            Watch::open(&direct, &path).await,
            Watch::open(&through, &path).await,
        );
        watches.push((selector, both));
    }
    let path = format!("{pods}/a");
    let status = |status: Value| {
        let (direct, path) = (direct.clone(), format!("{path}/status"));
        async move {
            let body = json!({ "status": status });
            direct
                .patch(&path, "merge-patch+json", &body)
                .await
                .expect(200);
        }
    };
    let ip = |ip: &str| json!({ "podIP": ip, "podIPs": [{ "ip": ip }] });
    status(ip("10.0.0.6")).await;
    status(ip("10.0.0.7")).await;
    status(json!({ "phase": "Running" })).await;
    direct
        .post(&pods, &pod_on_node("b", json!({}), "node-7"))
        .await
        .expect(201);
    status(ip("10.0.0.8")).await;
    for name in ["a", "b"] {
        let path = format!("{pods}/{name}?gracePeriodSeconds=0");
        direct.delete(&path).await.expect(200);
    }
    // Reads the watches of each selector until neither sends an event.
    let mut seen = 0;
    for (selector, (mut direct, mut through)) in watches {
        loop {
            let quiet = Duration::from_millis(700);
            let (d, f) = tokio::join!(direct.next_within(quiet), through.next_within(quiet));
            let line = |e: Option<Result<crate::harness::watch::Event, _>>| {
                e.and_then(Result::ok).map(|e| e.line)
            };
            let (d, f) = (line(d), line(f));
            assert_eq!(d, f, "{selector}");
            if d.is_none() {
                break;
            }
            seen += 1;
        }
    }
    assert!(seen >= 12, "only {seen} events");
    front.stop().await;
}

#[tokio::test]
async fn selectable_fields_change_with_their_definition() {
    let cluster = cluster();
    let front = front(&cluster).await;
    let (direct, through) = (cluster.admin_client(), front.admin_client());
    let group = "changing.example.test";
    let mut changing = definition(&[".spec.text"]);
    changing["metadata"]["name"] = json!(format!("things.{group}"));
    changing["spec"]["group"] = json!(group);
    direct.post(DEFINITIONS, &changing).await.expect(201);
    let list = format!("/apis/{group}/v1/namespaces/{NAMESPACE}/things");
    eventually("it is served", SOON, || async {
        direct.get(&list).await.status == 200
    })
    .await;
    for (name, number) in [("one", 1), ("two", 2)] {
        let thing = json!({
            "apiVersion": format!("{group}/v1"), "kind": "Thing",
            "metadata": { "name": name }, "spec": { "text": name, "number": number },
        });
        direct.post(&list, &thing).await.expect(201);
    }
    front
        .warm(&through, &format!("{list}?resourceVersion=0"))
        .await;
    let by_text = format!("{list}?resourceVersion=0&fieldSelector=spec.text%3Done");
    let by_number = format!("{list}?resourceVersion=0&fieldSelector=spec.number%3D2");
    front.warm(&through, &by_text).await;
    direct.get(&by_number).await.expect(400);
    through.get(&by_number).await.expect(400);
    let path = format!("{DEFINITIONS}/things.{group}");
    let change = definition(&[".spec.number"]);
    let change = json!({ "spec": { "versions": change["spec"]["versions"] } });
    direct
        .patch(&path, "merge-patch+json", &change)
        .await
        .expect(200);
    eventually("the other field is known", SOON, || async {
        direct.get(&by_number).await.status == 200
    })
    .await;
    front.warm(&through, &by_number).await;
    let mut both = Differential::new(direct, through);
    both.get(&by_number).await;
    let unknown_field = Expect::Bypass("field_selector");
    both.expect(unknown_field).get(&by_text).await;
    both.finish();
    front.stop().await;
}
