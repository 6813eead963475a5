//! Fills a cluster with pods as large as real ones.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use serde_json::{Value, json};

use harness::client::Client;
use harness::cluster::create_namespace_named;

const NAMESPACES: usize = 20;
/// The number of concurrent creations, enough to keep kube-apiserver and etcd busy.
const AT_A_TIME: usize = 64;

/// The number of nodes in a cluster with this many pods.
pub const NODES: usize = 500;

/// Creates `count` pods over [`NAMESPACES`] namespaces.
pub async fn create(admin: &Client, count: usize) {
    create_on(admin, count, NODES).await;
}

/// Does the same as [`create`] on `nodes` nodes in turn.
pub async fn create_on(admin: &Client, count: usize, nodes: usize) {
    create_each(admin, count, |n| pod(n, &node(n % nodes))).await;
}

/// Does the same as [`create`] with three managers: the creator, the kubelet, and a
/// controller that labels pods.
pub async fn create_managed(admin: &Client, count: usize) {
    create_each(admin, count, |n| {
        let mut pod = pod(n, &node(n % NODES));
        pod["metadata"]["managedFields"] = managers();
        pod
    })
    .await;
}

async fn create_each(admin: &Client, count: usize, pod: impl Fn(usize) -> Value) {
    for n in 0..NAMESPACES.min(count) {
        create_namespace_named(admin, &namespace(n)).await;
    }
    let pod = &pod;
    futures::stream::iter(0..count)
        .for_each_concurrent(AT_A_TIME, |n| async move {
            let path = format!("/api/v1/namespaces/{}/pods", namespace(n));
            let answer = admin.post(&path, &pod(n)).await;
            assert_eq!(answer.status, 201, "{}", answer.text());
        })
        .await;
}

/// Returns the managers besides the creator. The API server keeps what it is given.
fn managers() -> Value {
    let condition = |kind: &str| {
        let key = format!(r#"k:{{"type":"{kind}"}}"#);
        let fields = json!({
            ".": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}, "f:status": {},
            "f:type": {},
        });
        (key, fields)
    };
    let kinds = [
        "ContainersReady",
        "Initialized",
        "PodReadyToStartContainers",
        "Ready",
    ];
    let conditions: serde_json::Map<String, Value> = kinds.map(condition).into_iter().collect();
    let entry = |manager: &str, subresource: &str, fields: Value| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1",
            "time": "2026-11-21T03:48:19Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
            "subresource": subresource,
        })
    };
    let status = json!({ "f:status": {
        "f:conditions": conditions, "f:containerStatuses": {}, "f:hostIP": {}, "f:hostIPs": {},
        "f:phase": {}, "f:podIP": {}, "f:podIPs": {}, "f:startTime": {},
    }});
    let labels = json!({ "f:metadata": { "f:labels": { "f:topology.example.com/zone": {} } } });
    json!([
        entry("kubelet", "status", status),
        entry("zone-labeller", "", labels)
    ])
}

pub fn path(n: usize) -> String {
    format!("/api/v1/namespaces/{}/pods/{}", namespace(n), name(n))
}

pub fn node(n: usize) -> String {
    format!("node-{n:04}")
}

/// Gives the label `update` of the `n`th pod a new value, and returns that.
pub async fn relabel(admin: &Client, n: usize) -> usize {
    static UPDATE: AtomicUsize = AtomicUsize::new(0);
    let update = UPDATE.fetch_add(1, Ordering::Relaxed);
    let patch = json!({ "metadata": { "labels": { "update": update.to_string() } } });
    let answer = admin.patch(&path(n), "merge-patch+json", &patch).await;
    answer.expect(200);
    update
}

/// Returns the version that a list made now would have.
pub async fn version(client: &Client) -> String {
    let list = client.get("/api/v1/pods?limit=1").await.expect(200);
    let version = list["metadata"]["resourceVersion"].as_str();
    version.expect("a version").to_owned()
}

/// The namespace of the first pod, and of every [`NAMESPACES`]th one.
pub const FIRST_NAMESPACE: &str = "team-0";

fn namespace(n: usize) -> String {
    format!("team-{}", n % NAMESPACES)
}

fn name(n: usize) -> String {
    format!("checkout-api-{:08x}-{n:05}", n / 25)
}

/// Returns a pod like one that a Deployment makes, with a sidecar. With the server's
/// managedFields it has about 9 KB of JSON.
fn pod(n: usize, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name(n),
            "generateName": format!("checkout-api-{:08x}-", n / 25),
            "labels": {
                "app.kubernetes.io/name": "checkout-api",
                "app.kubernetes.io/instance": format!("checkout-api-{}", n % 40),
                "app.kubernetes.io/version": "2.41.7",
                "app.kubernetes.io/component": "backend",
                "app.kubernetes.io/managed-by": "Helm",
                "pod-template-hash": format!("{:08x}", n / 25),
                "topology.example.com/zone": format!("zone-{}", n % 3),
            },
            "annotations": {
                "checksum/config": format!("{:064x}", n as u128 * 0x9e37_79b9_7f4a_7c15),
                "prometheus.io/scrape": "true",
                "prometheus.io/port": "9102",
                "prometheus.io/path": "/metrics",
                "sidecar.example.com/status": r#"{"version":"1.9","initContainers":["proxy-init"],"containers":["proxy"],"volumes":["proxy-certs"]}"#,
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
            },
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": format!("checkout-api-{:08x}", n / 25),
                "uid": format!("7d1f52a4-0c3e-4d0a-9a55-{:012x}", n / 25),
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "spec": {
            "automountServiceAccountToken": false,
            "nodeName": node,
            "terminationGracePeriodSeconds": 60,
            "containers": [
                container("main", "registry.example.com/shop/checkout-api", 8080, n),
                container("proxy", "registry.example.com/mesh/proxy", 15090, n),
            ],
            "initContainers": [{
                "name": "proxy-init",
                "image": "registry.example.com/mesh/proxy-init:1.9.4",
                "args": ["--inbound", "15006", "--outbound", "15001", "--uid", "1337"],
                "securityContext": { "capabilities": { "add": ["NET_ADMIN"] } },
            }],
            "volumes": [
                { "name": "config", "configMap": { "name": "checkout-api" } },
                { "name": "secrets", "secret": { "secretName": "checkout-api" } },
                { "name": "cache", "emptyDir": { "sizeLimit": "512Mi" } },
            ],
        },
    })
}

fn container(name: &str, image: &str, port: u16, n: usize) -> Value {
    let environment: Vec<Value> = [
        ("LOG_LEVEL", "info".to_owned()),
        (
            "DATABASE_URL",
            format!("postgres://checkout@db-{}:5432/shop", n % 16),
        ),
        ("CACHE_URL", "redis://cache.shared:6379/3".to_owned()),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "http://collector.observability:4317".to_owned(),
        ),
    ]
    .into_iter()
    .map(|(name, value)| json!({ "name": name, "value": value }))
    .collect();
    let probe = |path: &str, period: u32| {
        json!({
            "httpGet": { "path": path, "port": port, "scheme": "HTTP" },
            "initialDelaySeconds": 5, "periodSeconds": period, "failureThreshold": 3,
        })
    };
    json!({
        "name": name,
        "image": format!("{image}:2.41.7"),
        "ports": [{ "name": "http", "containerPort": port, "protocol": "TCP" }],
        "env": environment,
        "resources": {
            "requests": { "cpu": "250m", "memory": "512Mi" },
            "limits": { "cpu": "1", "memory": "1Gi" },
        },
        "livenessProbe": probe("/healthz", 20),
        "readinessProbe": probe("/ready", 10),
        "volumeMounts": [
            { "name": "config", "mountPath": "/etc/checkout", "readOnly": true },
            { "name": "secrets", "mountPath": "/var/run/secrets/checkout", "readOnly": true },
            { "name": "cache", "mountPath": "/var/cache/checkout" },
        ],
        "securityContext": {
            "allowPrivilegeEscalation": false, "runAsNonRoot": true, "runAsUser": 1000,
            "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] },
        },
    })
}
