//! Nodes, deployments and their objects: 10 applications in 3 namespaces, 20
//! pods each.

use chrono::{DateTime, Duration, Utc};
use serde_json::{Value, json};

use crate::{meta, server::EmbeddedServer};

const NODES: usize = 5;
const REPLICAS: usize = 20;

/// Name, namespace, tier, image, port.
const APPLICATIONS: &[(&str, &str, &str, &str, u16)] = &[
    ("web", "default", "frontend", "nginx:1.29", 80),
    (
        "api",
        "default",
        "backend",
        "registry.example.com/api:4.2.0",
        8080,
    ),
    (
        "worker",
        "default",
        "backend",
        "registry.example.com/worker:4.2.0",
        9000,
    ),
    (
        "cart",
        "shop",
        "backend",
        "registry.example.com/cart:1.8.3",
        8080,
    ),
    (
        "catalog",
        "shop",
        "backend",
        "registry.example.com/catalog:2.0.1",
        8080,
    ),
    (
        "checkout",
        "shop",
        "backend",
        "registry.example.com/checkout:1.1.0",
        8080,
    ),
    (
        "storefront",
        "shop",
        "frontend",
        "registry.example.com/storefront:7.3.2",
        3000,
    ),
    (
        "grafana",
        "monitoring",
        "frontend",
        "grafana/grafana:12.1.0",
        3000,
    ),
    (
        "prometheus",
        "monitoring",
        "data",
        "prom/prometheus:v3.5.0",
        9090,
    ),
    ("loki", "monitoring", "data", "grafana/loki:3.5.0", 3100),
];

pub(super) fn load(server: &EmbeddedServer) {
    let now = Utc::now();
    for name in ["monitoring", "shop"] {
        server.seed(
            "",
            "v1",
            json!({"kind": "Namespace", "metadata": {"name": name}}),
        );
    }
    for i in 0..NODES {
        server.seed("", "v1", node(i, now));
        server.seed("coordination.k8s.io", "v1", lease(i, now));
    }
    server.seed("", "v1", kubernetes_service());
    for (index, application) in APPLICATIONS.iter().enumerate() {
        let &(name, namespace, ..) = application;
        let Some(deployment) = server.seed("apps", "v1", deployment(application, now)) else {
            continue;
        };
        let owner = owner("Deployment", name, meta::uid(&deployment.value));
        let set = replica_set(application, &owner, now);
        let set_name = meta::name(&set).to_owned();
        let Some(set) = server.seed("apps", "v1", set) else {
            continue;
        };
        let owner = self::owner("ReplicaSet", &set_name, meta::uid(&set.value));
        for i in 0..REPLICAS {
            let pod = pod(application, &set_name, &owner, index * REPLICAS + i, now);
            server.seed("", "v1", pod);
        }
        server.seed("", "v1", service(application));
        server.seed("discovery.k8s.io", "v1", endpoint_slice(application, index));
        server.seed(
            "",
            "v1",
            json!({"kind": "ConfigMap", "metadata": {"name": format!("{name}-config"), "namespace": namespace},
                "data": {"log.level": "info", "config.yaml": format!("listen: 0.0.0.0\nname: {name}\n")}}),
        );
    }
    for namespace in ["default", "kube-system", "monitoring", "shop"] {
        server.seed(
            "",
            "v1",
            json!({"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}),
        );
    }
    server.seed(
        "",
        "v1",
        json!({"kind": "Secret", "metadata": {"name": "api-credentials", "namespace": "default"},
            "stringData": {"username": "api", "password": "not-a-secret"}}),
    );
    server.seed("", "v1", endpoints());
    server.seed("", "v1", event(now));
}

fn ago(now: DateTime<Utc>, minutes: i64) -> String {
    meta::timestamp(now - Duration::minutes(minutes))
}

fn owner(kind: &str, name: &str, uid: &str) -> Value {
    json!([{
        "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }])
}

fn node(i: usize, now: DateTime<Utc>) -> Value {
    let name = format!("node-{i}");
    let resources = json!({"cpu": "8", "memory": "32877408Ki", "pods": "110", "ephemeral-storage": "203070420Ki"});
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": ago(now, 1), "lastTransitionTime": ago(now, 60 * 24 * 12)})
    };
    // The last node is not ready, as happens in real clusters.
    let ready = if i + 1 < NODES {
        condition(
            "Ready",
            "True",
            "KubeletReady",
            "kubelet is posting ready status",
        )
    } else {
        condition(
            "Ready",
            "False",
            "KubeletNotReady",
            "container runtime network not ready",
        )
    };
    let mut labels = json!({
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": format!("zone-{}", ["a", "b", "c"][i % 3]),
    });
    if i == 0 {
        labels["node-role.kubernetes.io/control-plane"] = "".into();
    }
    json!({
        "kind": "Node",
        "metadata": {
            "name": name, "labels": labels, "creationTimestamp": ago(now, 60 * 24 * 12),
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"podCIDR": format!("10.244.{i}.0/24"), "podCIDRs": [format!("10.244.{i}.0/24")]},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                ready,
            ],
            "addresses": [
                {"type": "InternalIP", "address": format!("192.0.2.{}", 10 + i)},
                {"type": "Hostname", "address": name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "machineID": format!("{i:032x}"), "systemUUID": format!("{i:032x}"), "bootID": format!("{i:032x}"),
                "kernelVersion": "6.12.0", "osImage": "Debian GNU/Linux 13", "containerRuntimeVersion": "containerd://2.1.4",
                "kubeletVersion": "v1.37.1", "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
            },
        },
    })
}

fn lease(i: usize, now: DateTime<Utc>) -> Value {
    let renewed = now.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    json!({
        "kind": "Lease",
        "metadata": {"name": format!("node-{i}"), "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": format!("node-{i}"), "leaseDurationSeconds": 40, "renewTime": renewed},
    })
}

fn kubernetes_service() -> Value {
    json!({
        "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"}},
        "spec": {"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]},
    })
}

fn labels(name: &str, tier: &str) -> Value {
    json!({"app": name, "tier": tier})
}

fn template(application: &(&str, &str, &str, &str, u16)) -> Value {
    let &(name, _, tier, image, port) = application;
    json!({
        "metadata": {"labels": labels(name, tier)},
        "spec": {"containers": [container(name, image, port)]},
    })
}

fn container(name: &str, image: &str, port: u16) -> Value {
    json!({
        "name": name, "image": image,
        "ports": [{"containerPort": port, "protocol": "TCP"}],
        "env": [{"name": "LOG_LEVEL", "value": "info"}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": port, "scheme": "HTTP"},
            "periodSeconds": 10, "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 3},
    })
}

fn condition(kind: &str, status: bool, reason: &str, message: &str, since: &str) -> Value {
    json!({"type": kind, "status": if status { "True" } else { "False" }, "reason": reason,
        "message": message, "lastUpdateTime": since, "lastTransitionTime": since})
}

fn deployment(application: &(&str, &str, &str, &str, u16), now: DateTime<Utc>) -> Value {
    let &(name, namespace, tier, ..) = application;
    let since = ago(now, 60 * 24 * 3);
    let ready = REPLICAS - unready();
    json!({
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name, tier), "creationTimestamp": since,
            "annotations": {"deployment.kubernetes.io/revision": "1"}},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}}, "template": template(application)},
        "status": {
            "observedGeneration": 1, "replicas": REPLICAS, "updatedReplicas": REPLICAS, "readyReplicas": ready,
            "availableReplicas": ready, "unavailableReplicas": REPLICAS - ready,
            "conditions": [
                condition("Available", true, "MinimumReplicasAvailable", "Deployment has minimum availability.", &since),
                condition("Progressing", true, "NewReplicaSetAvailable", "ReplicaSet has successfully progressed.", &since),
            ],
        },
    })
}

fn replica_set(
    application: &(&str, &str, &str, &str, u16),
    owner: &Value,
    now: DateTime<Utc>,
) -> Value {
    let &(name, namespace, tier, ..) = application;
    let ready = REPLICAS - unready();
    json!({
        "kind": "ReplicaSet",
        "metadata": {"name": format!("{name}-6d4b75cb6d"), "namespace": namespace, "labels": labels(name, tier),
            "ownerReferences": owner, "creationTimestamp": ago(now, 60 * 24 * 3),
            "annotations": {"deployment.kubernetes.io/revision": "1"}},
        "spec": {"replicas": REPLICAS, "selector": {"matchLabels": {"app": name}}, "template": template(application)},
        "status": {"observedGeneration": 1, "replicas": REPLICAS, "fullyLabeledReplicas": REPLICAS,
            "readyReplicas": ready, "availableReplicas": ready},
    })
}

/// Returns the phase of a pod. In each application one pod waits, one crashes, one
/// is done and one failed.
fn phase(i: usize) -> &'static str {
    match i % REPLICAS {
        7 => "Pending",
        13 => "CrashLoopBackOff",
        17 => "Succeeded",
        19 => "Failed",
        _ => "Running",
    }
}

fn unready() -> usize {
    (0..REPLICAS).filter(|&i| phase(i) != "Running").count()
}

/// Returns five characters of the alphabet of generated names, the same for each
/// `i`.
fn suffix(i: usize) -> String {
    const ALPHABET: [char; 27] = [
        'b', 'c', 'd', 'f', 'g', 'h', 'j', 'k', 'l', 'm', 'n', 'p', 'q', 'r', 's', 't', 'v', 'w',
        'x', 'z', '2', '4', '5', '6', '7', '8', '9',
    ];
    let mut n = (i + 1).wrapping_mul(7_368_787);
    (0..5)
        .map(|_| {
            let c = ALPHABET[n % ALPHABET.len()];
            n /= ALPHABET.len();
            c
        })
        .collect()
}

fn pod(
    application: &(&str, &str, &str, &str, u16),
    set: &str,
    owner: &Value,
    i: usize,
    now: DateTime<Utc>,
) -> Value {
    let &(name, namespace, tier, image, port) = application;
    let mut labels = labels(name, tier);
    labels["pod-template-hash"] = "6d4b75cb6d".into();
    let started = ago(now, 60 + 17 * i as i64);
    let phase = phase(i);
    let node = i % NODES;
    let mut pod = json!({
        "kind": "Pod",
        "metadata": {
            "name": format!("{set}-{}", suffix(i)), "generateName": format!("{set}-"), "namespace": namespace,
            "labels": labels, "ownerReferences": owner, "creationTimestamp": started,
        },
        "spec": {
            "containers": [container(name, image, port)],
            "serviceAccountName": "default", "serviceAccount": "default",
        },
        "status": status(application, phase, i, node, &started),
    });
    if phase != "Pending" {
        pod["spec"]["nodeName"] = format!("node-{node}").into();
    }
    pod
}

fn status(
    application: &(&str, &str, &str, &str, u16),
    phase: &str,
    i: usize,
    node: usize,
    started: &str,
) -> Value {
    let &(name, _, _, image, _) = application;
    let condition = |kind: &str, status: bool| json!({"type": kind, "status": if status { "True" } else { "False" }, "lastProbeTime": null, "lastTransitionTime": started});
    if phase == "Pending" {
        return json!({
            "phase": "Pending", "qosClass": "Burstable",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastProbeTime": null,
                "lastTransitionTime": started, "message": "0/5 nodes are available: 5 Insufficient cpu."}],
        });
    }
    let terminated = |code: u32, reason: &str| {
        json!({"terminated": {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": started,
            "containerID": format!("containerd://{i:064x}")}})
    };
    let (shown, state, last, restarts) = match phase {
        "Running" => (
            "Running",
            json!({"running": {"startedAt": started}}),
            json!({}),
            i % 3,
        ),
        "CrashLoopBackOff" => (
            "Running",
            json!({"waiting": {"reason": "CrashLoopBackOff",
                "message": format!("back-off 5m0s restarting failed container={name}")}}),
            terminated(1, "Error"),
            40 + i % 10,
        ),
        "Succeeded" => ("Succeeded", terminated(0, "Completed"), json!({}), 0),
        _ => ("Failed", terminated(137, "OOMKilled"), json!({}), 0),
    };
    let ready = phase == "Running";
    let address = format!("10.244.{node}.{}", 10 + i);
    let host = format!("192.0.2.{}", 10 + node);
    json!({
        "phase": shown,
        "conditions": [
            condition("PodReadyToStartContainers", ready),
            condition("Initialized", true),
            condition("Ready", ready),
            condition("ContainersReady", ready),
            condition("PodScheduled", true),
        ],
        "hostIP": host, "hostIPs": [{"ip": host}],
        "podIP": address, "podIPs": [{"ip": address}],
        "startTime": started,
        "containerStatuses": [{
            "name": name, "state": state, "lastState": last, "ready": ready, "restartCount": restarts,
            "image": image, "imageID": format!("sha256:{:064x}", image.len()),
            "containerID": format!("containerd://{i:064x}"), "started": ready,
        }],
        "qosClass": "Burstable",
    })
}

fn service(application: &(&str, &str, &str, &str, u16)) -> Value {
    let &(name, namespace, tier, _, port) = application;
    json!({
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": labels(name, tier)},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": port}],
            "type": if tier == "frontend" { "NodePort" } else { "ClusterIP" }},
    })
}

fn endpoint_slice(application: &(&str, &str, &str, &str, u16), index: usize) -> Value {
    let &(name, namespace, _, _, port) = application;
    let endpoints: Vec<Value> = (index * REPLICAS..(index + 1) * REPLICAS)
        .filter(|&i| phase(i) == "Running")
        .map(|i| {
            let node = i % NODES;
            json!({"addresses": [format!("10.244.{node}.{}", 10 + i)], "nodeName": format!("node-{node}"),
                "conditions": {"ready": true, "serving": true, "terminating": false}})
        })
        .collect();
    json!({
        "kind": "EndpointSlice",
        "metadata": {"name": format!("{name}-{}", suffix(index)), "namespace": namespace,
            "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
    })
}

/// Returns an Endpoints object, which is deprecated, so reading it shows a warning.
fn endpoints() -> Value {
    json!({
        "kind": "Endpoints",
        "metadata": {"name": "kubernetes", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": "192.0.2.10"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}],
    })
}

fn event(now: DateTime<Utc>) -> Value {
    let name = format!("web-6d4b75cb6d-{}", suffix(13));
    json!({
        "kind": "Event",
        "metadata": {"name": format!("{name}.18a1f0c3d2e4b5a6"), "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": "default"},
        "reason": "BackOff", "message": "Back-off restarting failed container web", "type": "Warning", "count": 42,
        "source": {"component": "kubelet", "host": "node-3"},
        "firstTimestamp": ago(now, 240), "lastTimestamp": ago(now, 1), "eventTime": null,
        "reportingComponent": "kubelet", "reportingInstance": "node-3",
    })
}
