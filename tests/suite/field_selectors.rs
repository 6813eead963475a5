//! Tests field selectors with every label that kube-apiserver knows, on real
//! objects, and with some that it does not know.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::apifront::Apifront;
use crate::harness::cluster::{Cluster, Once, once};
use crate::harness::differential::Differential;
use crate::harness::eventually;
use crate::harness::expect::Expect;
use crate::harness::objects::{pod, pod_on_node};
use crate::harness::watch::Watch;

const NAMESPACE: &str = "fields";
const GROUP: &str = "fields.example.test";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SOON: Duration = Duration::from_secs(30);

/// Returns a cluster whose groups have all their versions, and in which nothing
/// changes by itself.
fn cluster() -> &'static Cluster {
    static CLUSTER: Once<Cluster> = Once::new();
    once(&CLUSTER, || async {
        let flags = [
            "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true,certificates.k8s.io/v1beta1=true",
            "--feature-gates=ClusterTrustBundle=true,PodCertificateRequest=true",
        ];
        let cluster = Cluster::start(&flags.map(str::to_owned)).await;
        create(&cluster).await;
        cluster
    })
}

async fn front() -> Apifront {
    let excluding_nothing = |config: &mut Value| config["cache"]["exclude"] = json!([]);
    Apifront::start(cluster(), excluding_nothing).await
}

async fn create(cluster: &Cluster) {
    let admin = cluster.admin_client();
    let post = async |collection: &str, object: &Value| {
        let answer = admin.post(collection, object).await;
        assert_eq!(answer.status, 201, "{collection}: {}", answer.text());
    };
    let patch_status = async |path: &str, status: Value| {
        let body = json!({ "status": status });
        let path = format!("{path}/status");
        let answer = admin.patch(&path, "merge-patch+json", &body).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    };
    let object = |version: &str, kind: &str, name: &str, rest: Value| {
        let mut object =
            json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name } });
        for (key, value) in rest.as_object().expect("an object") {
            object[key] = value.clone();
        }
        object
    };
    let core = format!("/api/v1/namespaces/{NAMESPACE}");
    post(
        "/api/v1/namespaces",
        &object("v1", "Namespace", NAMESPACE, json!({})),
    )
    .await;

    let pods = format!("{core}/pods");
    post(&pods, &pod("plain", json!({}))).await;
    post(&pods, &pod_on_node("bound", json!({}), "node-1")).await;
    let mut host = pod_on_node("host", json!({}), "node-2");
    host["spec"]["hostNetwork"] = json!(true);
    host["spec"]["restartPolicy"] = json!("Never");
    host["spec"]["schedulerName"] = json!("another");
    host["spec"]["securityContext"] = json!({ "runAsNonRoot": true });
    post(&pods, &host).await;
    let ips = json!([{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }]);
    let running = json!({ "phase": "Running", "podIP": "10.0.0.1", "podIPs": ips });
    patch_status(&format!("{pods}/bound"), running).await;
    patch_status(
        &format!("{pods}/plain"),
        json!({ "nominatedNodeName": "node-2" }),
    )
    .await;

    for (name, unschedulable) in [("node-1", false), ("node-2", true)] {
        let spec = json!({ "spec": { "unschedulable": unschedulable } });
        post("/api/v1/nodes", &object("v1", "Node", name, spec)).await;
    }
    for (name, kind) in [("opaque", "Opaque"), ("other", "example.test/other")] {
        let secret = object("v1", "Secret", name, json!({ "type": kind }));
        post(&format!("{core}/secrets"), &secret).await;
    }
    for (name, spec) in [
        (
            "headless",
            json!({ "clusterIP": "None", "ports": [{ "port": 80 }] }),
        ),
        (
            "port",
            json!({ "type": "NodePort", "ports": [{ "port": 80 }] }),
        ),
        (
            "external",
            json!({ "type": "ExternalName", "externalName": "x.test" }),
        ),
    ] {
        let service = object("v1", "Service", name, json!({ "spec": spec }));
        post(&format!("{core}/services"), &service).await;
    }
    let template = json!({
        "metadata": { "labels": { "app": "x" } },
        "spec": { "restartPolicy": "Always", "containers": [{ "name": "x", "image": "x" }] },
    });
    for name in ["none", "three"] {
        let spec = json!({ "replicas": 0, "selector": { "app": "x" }, "template": template });
        let rc = object("v1", "ReplicationController", name, json!({ "spec": spec }));
        post(&format!("{core}/replicationcontrollers"), &rc).await;
    }
    patch_status(
        &format!("{core}/replicationcontrollers/three"),
        json!({ "replicas": 3 }),
    )
    .await;
    let jobs = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs");
    let mut template = template;
    template["metadata"] = json!({});
    template["spec"]["restartPolicy"] = json!("Never");
    for name in ["none", "two"] {
        let spec = json!({ "completions": 3, "template": template });
        post(
            &jobs,
            &object("batch/v1", "Job", name, json!({ "spec": spec })),
        )
        .await;
    }
    let two = json!({ "succeeded": 2, "startTime": "2026-01-02T03:04:05Z" });
    patch_status(&format!("{jobs}/two"), two).await;

    for (name, rest) in [
        (
            "old",
            json!({
                "involvedObject": {
                    "kind": "Pod", "namespace": NAMESPACE, "name": "bound", "apiVersion": "v1",
                    "uid": "u-1", "resourceVersion": "7", "fieldPath": "spec.containers{main}",
                },
                "reason": "Tested", "type": "Normal", "source": { "component": "kubelet" },
            }),
        ),
        (
            "bare",
            json!({ "involvedObject": { "namespace": NAMESPACE }, "reportingComponent": "reporter",
                    "reportingInstance": "x" }),
        ),
    ] {
        post(
            &format!("{core}/events"),
            &object("v1", "Event", name, rest),
        )
        .await;
    }
    let fresh = json!({
        "regarding": { "kind": "Node", "namespace": NAMESPACE, "name": "node-1" }, "reason": "Seen",
        "type": "Warning", "action": "Look", "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingController": "test/reporter", "reportingInstance": "reporter-1",
    });
    let events = format!("/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events");
    post(
        &events,
        &object("events.k8s.io/v1", "Event", "fresh", fresh),
    )
    .await;

    for signer in ["example.test/one", "example.test/two"] {
        let key = rcgen::KeyPair::generate().expect("a key");
        let request = rcgen::CertificateParams::default().serialize_request(&key);
        let pem = request.expect("a request").pem().expect("PEM");
        let spec = json!({ "spec": {
            "request": base64(&pem), "signerName": signer, "usages": ["client auth"],
        }});
        let name = signer.rsplit('/').next().expect("a name");
        let collection = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
        let csr = object(
            "certificates.k8s.io/v1",
            "CertificateSigningRequest",
            name,
            spec,
        );
        post(collection, &csr).await;
    }
    let bundle = std::fs::read_to_string(cluster.ca()).expect("the CA");
    for (name, spec) in [
        ("none", json!({ "trustBundle": bundle })),
        (
            "example.test:one:a",
            json!({ "trustBundle": bundle, "signerName": "example.test/one" }),
        ),
    ] {
        let collection = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles";
        let bundle = object(
            "certificates.k8s.io/v1beta1",
            "ClusterTrustBundle",
            name,
            json!({ "spec": spec }),
        );
        post(collection, &bundle).await;
    }
    for (name, rest) in [
        (
            "node",
            json!({ "nodeName": "node-1", "driver": "one.example.test" }),
        ),
        (
            "all",
            json!({ "allNodes": true, "driver": "two.example.test" }),
        ),
    ] {
        let mut spec = rest;
        spec["pool"] = json!({ "name": name, "generation": 1, "resourceSliceCount": 1 });
        let slice = object(
            "resource.k8s.io/v1",
            "ResourceSlice",
            name,
            json!({ "spec": spec }),
        );
        post("/apis/resource.k8s.io/v1/resourceslices", &slice).await;
    }

    post(
        DEFINITIONS,
        &definition(&[
            ".spec.text",
            ".spec.number",
            ".spec.flag",
            ".status.deep.er",
        ]),
    )
    .await;
    let things = things();
    eventually("things are served", SOON, || async {
        admin.get(&things).await.status == 200
    })
    .await;
    for (name, rest) in [
        ("empty", json!({})),
        (
            "full",
            json!({ "spec": { "text": "a", "number": 12, "flag": true },
                         "status": { "deep": { "er": "b" } } }),
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
        let thing = object(&format!("{GROUP}/v1"), "Thing", name, rest);
        post(&things, &thing).await;
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

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// Returns the list of each resource, and all labels that its field selectors
/// may name.
fn known() -> Vec<(String, Vec<&'static str>)> {
    let list = |base: &str, resource: &str| format!("{base}/namespaces/{NAMESPACE}/{resource}");
    let resource = |path: &str, labels: &[&'static str]| {
        let name = ["metadata.name"].iter().chain(labels).copied().collect();
        (path.to_owned(), name)
    };
    let core = "/api/v1";
    let certificates = "/apis/certificates.k8s.io/v1beta1";
    let mut all = vec![
        resource(
            &list(core, "pods"),
            &[
                "metadata.namespace",
                "spec.nodeName",
                "spec.host",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.podIPs",
                "status.nominatedNodeName",
            ],
        ),
        resource("/api/v1/nodes", &["spec.unschedulable"]),
        resource("/api/v1/namespaces", &["status.phase"]),
        resource(&list(core, "secrets"), &["metadata.namespace", "type"]),
        resource(
            &list(core, "services"),
            &["metadata.namespace", "spec.clusterIP", "spec.type"],
        ),
        resource(
            &list(core, "replicationcontrollers"),
            &["metadata.namespace", "status.replicas"],
        ),
        resource(&list(core, "configmaps"), &["metadata.namespace"]),
        resource(
            "/apis/storage.k8s.io/v1/storageclasses",
            &["metadata.namespace"],
        ),
        resource(
            &list(core, "events"),
            &[
                "metadata.namespace",
                "involvedObject.kind",
                "involvedObject.namespace",
                "involvedObject.name",
                "involvedObject.uid",
                "involvedObject.apiVersion",
                "involvedObject.resourceVersion",
                "involvedObject.fieldPath",
                "reason",
                "reportingComponent",
                "source",
                "type",
            ],
        ),
        resource(
            &list("/apis/events.k8s.io/v1", "events"),
            &[
                "metadata.namespace",
                "regarding.kind",
                "regarding.namespace",
                "regarding.name",
                "regarding.uid",
                "regarding.apiVersion",
                "regarding.resourceVersion",
                "regarding.fieldPath",
                "reason",
                "reportingController",
                "type",
            ],
        ),
        resource(
            &list("/apis/batch/v1", "jobs"),
            &["metadata.namespace", "status.successful"],
        ),
        resource(
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            &["spec.signerName"],
        ),
        resource(
            &format!("{certificates}/clustertrustbundles"),
            &["spec.signerName"],
        ),
        resource(
            &list(certificates, "podcertificaterequests"),
            &["spec.signerName", "spec.podName", "spec.nodeName"],
        ),
        resource(
            &things(),
            &[
                "metadata.namespace",
                "spec.text",
                "spec.number",
                "spec.flag",
                "status.deep.er",
            ],
        ),
    ];
    for version in ["v1", "v1beta1", "v1beta2"] {
        all.push(resource(
            &format!("/apis/resource.k8s.io/{version}/resourceslices"),
            &["spec.nodeName", "spec.driver"],
        ));
    }
    all
}

/// Collects every scalar in a value, as a selector would write it.
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

/// Returns the approximate values that objects have at a label's path. The
/// label's last word is looked up as a key.
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
    let front = front().await;
    let client = front.admin_client();
    let mut both = Differential::new(cluster().admin_client(), client.clone());
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
    let front = front().await;
    let mut both = Differential::new(cluster().admin_client(), front.admin_client());
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
    let front = front().await;
    let (direct, through) = (cluster().admin_client(), front.admin_client());
    let ns = cluster().namespace("moving").await;
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
    // The watches of each selector are read until neither sends an event.
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

/// A definition gets other selectable fields while it is in use.
#[tokio::test]
async fn selectable_fields_change_with_their_definition() {
    let front = front().await;
    let (direct, through) = (cluster().admin_client(), front.admin_client());
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
