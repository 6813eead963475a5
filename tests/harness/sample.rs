//! Objects of many kinds, for comparisons in a cluster where nothing moves.

use http::Method;
use serde_json::{Value, json};
use std::time::Duration;

use super::client::Client;
use super::objects::{pod, pod_on_node, widget, widget_definition};
use super::{eventually, objects, sample_rarer};

pub const NAMESPACE: &str = "sample";
pub const OTHER_NAMESPACE: &str = "sample-b";
pub const GROUP: &str = "sample.example.test";

/// Creates the sample. The API server's cache has all of it on return.
pub async fn create(admin: &Client) {
    for name in [NAMESPACE, OTHER_NAMESPACE] {
        let body = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "labels": { "app": "sample" } },
        });
        admin.post("/api/v1/namespaces", &body).await.expect(201);
    }
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    admin
        .post(definitions, &widget_definition(GROUP))
        .await
        .expect(201);
    let all = objects()
        .into_iter()
        .chain(sample_rarer::objects(NAMESPACE));
    for (collection, object) in all {
        let answer = admin.post(&collection, &object).await;
        assert_eq!(answer.status, 201, "{collection}: {}", answer.text());
    }
    pod_statuses(admin).await;
    let widgets = format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets");
    eventually("widgets are served", Duration::from_secs(30), || async {
        admin.get(&widgets).await.status == 200
    })
    .await;
    for (name, color, size) in [
        ("red", "red", 1),
        ("blue", "blue", 0),
        ("long", "long", 1 << 40),
    ] {
        admin
            .post(&widgets, &widget(GROUP, name, color, size))
            .await
            .expect(201);
    }
    // The document by which group versions become known is made anew in steps.
    let discovery = format!("/apis/{GROUP}/v1");
    eventually("discovery is complete", Duration::from_secs(30), || async {
        let groups = admin.get("/apis").await.text();
        groups.contains(GROUP) && admin.get(&discovery).await.status == 200
    })
    .await;
}

async fn pod_statuses(admin: &Client) {
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    let statuses = [
        (
            "running",
            json!({
                "phase": "Running", "podIP": "10.0.0.1", "hostIP": "192.168.0.1",
                "podIPs": [{ "ip": "10.0.0.1" }, { "ip": "fd00::1" }],
                "startTime": "2026-01-02T03:04:05Z",
                "conditions": [
                    { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:06Z",
                      "lastProbeTime": null },
                ],
                "containerStatuses": [{
                    "name": "main", "image": "example.test/image:1", "imageID": "sha256:1",
                    "ready": true, "restartCount": 3, "started": true,
                    "state": { "running": { "startedAt": "2026-01-02T03:04:05Z" } },
                    "lastState": { "terminated": {
                        "exitCode": 1, "reason": "Error", "finishedAt": "2026-01-02T03:04:04Z",
                        "startedAt": null,
                    }},
                }],
            }),
        ),
        (
            "failed",
            json!({
                "phase": "Failed", "reason": "Evicted", "message": "too <much> & \"more\"\u{2028}",
            }),
        ),
    ];
    for (name, status) in statuses {
        let body = json!({ "status": status });
        let path = format!("{pods}/{name}/status");
        admin
            .patch(&path, "merge-patch+json", &body)
            .await
            .expect(200);
    }
    // A deletion that waits for its node.
    let path = format!("{pods}/terminating?gracePeriodSeconds=3600");
    admin.send(Method::DELETE, &path, &[], "").await.expect(200);
}

/// Collection paths and what is created in them.
fn objects() -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut add = |base: &str, resource: &str, namespace: &str, mut object: Value| {
        let version = base
            .trim_start_matches("/apis/")
            .trim_start_matches("/api/");
        object["apiVersion"] = json!(version);
        if object["metadata"]["labels"].is_null() {
            object["metadata"]["labels"] = json!({ "app": "sample" });
        }
        let collection = if namespace.is_empty() {
            format!("{base}/{resource}")
        } else {
            format!("{base}/namespaces/{namespace}/{resource}")
        };
        all.push((collection, object));
    };
    let labels = json!({ "app": "sample", "weight": "5" });
    let core = "/api/v1";
    for namespace in [NAMESPACE, OTHER_NAMESPACE] {
        add(core, "pods", namespace, rich_pod());
        add(
            core,
            "pods",
            namespace,
            pod("pending", json!({ "app": "sample" })),
        );
        add(
            core,
            "pods",
            namespace,
            pod_on_node("failed", labels.clone(), "node-2"),
        );
        add(
            core,
            "pods",
            namespace,
            pod_on_node("terminating", json!({}), "node-1"),
        );
    }
    for n in 0..40 {
        let text = format!("line {n} <html> & \"quotes\" \\ ü 日本 \u{2028}\t\n").repeat(160);
        let name = format!("large-{n:02}");
        let body = objects::config_map(&name, json!({ "app": "sample" }), json!({ "text": text }));
        add(core, "configmaps", NAMESPACE, body);
    }
    // kube-apiserver makes no YAML of it: it refuses this character.
    let no_yaml = json!({ "text": "delete \u{7f}" });
    let body = objects::config_map("no-yaml", json!({}), no_yaml);
    add(core, "configmaps", OTHER_NAMESPACE, body);
    let object = |kind: &str, name: &str, rest: Value| {
        let mut object = json!({ "kind": kind, "metadata": { "name": name } });
        if let (Some(into), Some(from)) = (object.as_object_mut(), rest.as_object()) {
            into.extend(from.clone());
        }
        object
    };
    let ns = NAMESPACE;
    add(
        core,
        "configmaps",
        ns,
        object(
            "ConfigMap",
            "binary",
            json!({
                "binaryData": { "b": "AAECAw==" }, "immutable": true,
            }),
        ),
    );
    add(
        core,
        "secrets",
        ns,
        object(
            "Secret",
            "sample",
            json!({
                "type": "Opaque", "data": { "password": "c2VjcmV0" },
            }),
        ),
    );
    add(
        core,
        "services",
        ns,
        object(
            "Service",
            "sample",
            json!({ "spec": {
                "selector": { "app": "sample" },
                "ports": [
                    { "name": "http", "port": 80, "targetPort": "http" },
                    { "name": "dns", "port": 53, "targetPort": 5353, "protocol": "UDP" },
                ],
            }}),
        ),
    );
    add(
        core,
        "services",
        ns,
        object(
            "Service",
            "headless",
            json!({ "spec": {
                "clusterIP": "None", "ports": [{ "port": 80 }],
            }}),
        ),
    );
    add(
        core,
        "services",
        ns,
        object(
            "Service",
            "node-port",
            json!({ "spec": {
                "type": "NodePort", "ports": [{ "port": 80, "nodePort": 30080 }],
            }}),
        ),
    );
    add(
        core,
        "endpoints",
        ns,
        object(
            "Endpoints",
            "sample",
            json!({ "subsets": [{
                "addresses": [{ "ip": "10.0.0.1", "nodeName": "node-1" }], "ports": [{ "port": 80 }],
            }]}),
        ),
    );
    add(
        core,
        "serviceaccounts",
        ns,
        object(
            "ServiceAccount",
            "builder",
            json!({
                "automountServiceAccountToken": false,
            }),
        ),
    );
    add(
        core,
        "resourcequotas",
        ns,
        object(
            "ResourceQuota",
            "sample",
            json!({
                "spec": { "hard": { "cpu": "1500m", "memory": "1.5Gi", "persistentvolumeclaims": "10" } },
            }),
        ),
    );
    add(
        core,
        "limitranges",
        OTHER_NAMESPACE,
        object(
            "LimitRange",
            "sample",
            json!({
                "spec": { "limits": [{ "type": "Container", "default": { "cpu": "0.5", "memory": "1e3" } }] },
            }),
        ),
    );
    add(
        core,
        "replicationcontrollers",
        ns,
        object(
            "ReplicationController",
            "sample",
            json!({
                "spec": { "replicas": 0, "selector": { "app": "x" }, "template": template("x") },
            }),
        ),
    );
    add(
        core,
        "podtemplates",
        ns,
        object(
            "PodTemplate",
            "sample",
            json!({ "template": template("x") }),
        ),
    );
    add(
        core,
        "persistentvolumeclaims",
        ns,
        object(
            "PersistentVolumeClaim",
            "sample",
            json!({ "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "3Gi" } },
                "storageClassName": "sample",
            }}),
        ),
    );
    add(
        core,
        "persistentvolumes",
        "",
        object(
            "PersistentVolume",
            "sample",
            json!({ "spec": {
                "capacity": { "storage": "0.5Ti" }, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                "hostPath": { "path": "/tmp/x" }, "persistentVolumeReclaimPolicy": "Retain",
            }}),
        ),
    );
    for (name, unschedulable) in [("node-1", false), ("node-2", true)] {
        add(
            core,
            "nodes",
            "",
            object(
                "Node",
                name,
                json!({
                    "spec": { "unschedulable": unschedulable, "podCIDR": "10.0.0.0/24" },
                    "status": {
                        "capacity": { "cpu": "8", "memory": "32Gi" },
                        "nodeInfo": { "kubeletVersion": "v1.36.3" },
                        "addresses": [{ "type": "InternalIP", "address": "192.168.0.1" }],
                        "conditions": [{ "type": "Ready", "status": "True" }],
                    },
                }),
            ),
        );
    }
    add(
        core,
        "events",
        ns,
        object(
            "Event",
            "sample",
            json!({
                "involvedObject": { "kind": "Pod", "namespace": ns, "name": "running", "apiVersion": "v1" },
                "reason": "Tested", "message": "a message", "type": "Normal", "count": 3,
                "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": "2026-01-02T03:14:05Z",
                "source": { "component": "test" },
            }),
        ),
    );
    add(
        "/apis/events.k8s.io/v1",
        "events",
        ns,
        object(
            "Event",
            "series",
            json!({
                "regarding": { "kind": "Pod", "namespace": ns, "name": "running" },
                "reason": "Seen", "note": "a note", "type": "Warning", "action": "Test",
                "eventTime": "2026-01-02T03:04:05.678901Z",
                "reportingController": "example.test/controller", "reportingInstance": "one",
            }),
        ),
    );
    let apps = "/apis/apps/v1";
    let workload = |app: &str| {
        json!({
            "selector": { "matchLabels": { "app": app } }, "template": template(app),
        })
    };
    add(
        apps,
        "deployments",
        ns,
        object(
            "Deployment",
            "sample",
            json!({ "spec": {
                "replicas": 2, "selector": { "matchLabels": { "app": "web" } }, "template": template("web"),
                "strategy": { "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": 1 } },
            }}),
        ),
    );
    add(
        apps,
        "replicasets",
        ns,
        object("ReplicaSet", "sample", json!({ "spec": workload("rs") })),
    );
    add(
        apps,
        "daemonsets",
        ns,
        object("DaemonSet", "sample", json!({ "spec": workload("ds") })),
    );
    let mut stateful = workload("sts");
    stateful["serviceName"] = json!("headless");
    add(
        apps,
        "statefulsets",
        ns,
        object("StatefulSet", "sample", json!({ "spec": stateful })),
    );
    add(
        apps,
        "controllerrevisions",
        ns,
        object(
            "ControllerRevision",
            "sample",
            json!({
                "revision": 1, "data": { "z": 1, "a": { "nested": [1.5, null, "<"] } },
            }),
        ),
    );
    let batch = "/apis/batch/v1";
    let mut job = template("job");
    job["spec"]["restartPolicy"] = json!("Never");
    add(
        batch,
        "jobs",
        ns,
        object(
            "Job",
            "sample",
            json!({ "spec": {
                "template": job, "completions": 3, "backoffLimit": 0,
            }}),
        ),
    );
    add(
        batch,
        "cronjobs",
        ns,
        object(
            "CronJob",
            "sample",
            json!({ "spec": {
                "schedule": "*/5 * * * *", "jobTemplate": { "spec": { "template": job } },
            }}),
        ),
    );
    let net = "/apis/networking.k8s.io/v1";
    add(
        net,
        "ingresses",
        ns,
        object(
            "Ingress",
            "sample",
            json!({ "spec": {
                "ingressClassName": "sample",
                "rules": [{ "host": "x.test", "http": { "paths": [{
                    "path": "/", "pathType": "Prefix",
                    "backend": { "service": { "name": "sample", "port": { "number": 80 } } },
                }]}}],
            }}),
        ),
    );
    add(
        net,
        "networkpolicies",
        ns,
        object(
            "NetworkPolicy",
            "sample",
            json!({ "spec": {
                "podSelector": {}, "ingress": [{ "ports": [{ "port": "http" }, { "port": 80, "endPort": 90 }] }],
            }}),
        ),
    );
    add(
        net,
        "ingressclasses",
        "",
        object(
            "IngressClass",
            "sample",
            json!({
                "spec": { "controller": "example.test/ingress" },
            }),
        ),
    );
    add(
        "/apis/policy/v1",
        "poddisruptionbudgets",
        ns,
        object(
            "PodDisruptionBudget",
            "sample",
            json!({
                "spec": { "minAvailable": "50%", "selector": { "matchLabels": { "app": "web" } } },
            }),
        ),
    );
    add(
        "/apis/autoscaling/v2",
        "horizontalpodautoscalers",
        ns,
        object(
            "HorizontalPodAutoscaler",
            "sample",
            json!({
                "spec": {
                    "maxReplicas": 5, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "sample" },
                    "metrics": [{ "type": "Resource", "resource": {
                        "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 },
                    }}],
                },
            }),
        ),
    );
    add(
        "/apis/coordination.k8s.io/v1",
        "leases",
        ns,
        object(
            "Lease",
            "sample",
            json!({
                "spec": { "holderIdentity": "me", "leaseDurationSeconds": 10, "renewTime": "2026-01-02T03:04:05.000001Z" },
            }),
        ),
    );
    add(
        "/apis/discovery.k8s.io/v1",
        "endpointslices",
        ns,
        object(
            "EndpointSlice",
            "sample",
            json!({
                "addressType": "IPv4", "endpoints": [{ "addresses": ["10.0.0.1"], "conditions": { "ready": true } }],
                "ports": [{ "name": "", "port": 80 }],
            }),
        ),
    );
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    add(
        rbac,
        "roles",
        ns,
        objects::role("sample", &[""], &["pods"], &["get"]),
    );
    add(
        rbac,
        "rolebindings",
        ns,
        objects::role_binding("sample", "sample", "User", "nobody"),
    );
    let storage = "/apis/storage.k8s.io/v1";
    add(
        storage,
        "storageclasses",
        "",
        object(
            "StorageClass",
            "sample",
            json!({
                "provisioner": "example.test/disk", "parameters": { "b": "2", "a": "1" },
            }),
        ),
    );
    add(
        storage,
        "csidrivers",
        "",
        object("CSIDriver", "sample.example.test", json!({ "spec": {} })),
    );
    add(
        storage,
        "csinodes",
        "",
        object("CSINode", "node-1", json!({ "spec": { "drivers": [] } })),
    );
    add(
        "/apis/scheduling.k8s.io/v1",
        "priorityclasses",
        "",
        object(
            "PriorityClass",
            "sample",
            json!({
                "value": -5, "description": "low",
            }),
        ),
    );
    add(
        "/apis/node.k8s.io/v1",
        "runtimeclasses",
        "",
        object(
            "RuntimeClass",
            "sample",
            json!({
                "handler": "sample",
            }),
        ),
    );
    add(
        "/apis/admissionregistration.k8s.io/v1",
        "validatingadmissionpolicies",
        "",
        object(
            "ValidatingAdmissionPolicy",
            "sample",
            json!({ "spec": {
                "matchConstraints": { "resourceRules": [{
                    "apiGroups": ["none.test"], "apiVersions": ["v1"],
                    "operations": ["CREATE"], "resources": ["nothing"],
                }]},
                "validations": [{ "expression": "object.x < 5 && object.y > 6" }],
            }}),
        ),
    );
    all
}

fn template(app: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": app } },
        "spec": { "containers": [{ "name": "main", "image": "example.test/image:1" }] },
    })
}

/// One of most things a pod can say.
fn rich_pod() -> Value {
    let mut pod = pod_on_node(
        "running",
        json!({ "app": "sample", "tier": "<front>".replace(['<', '>'], "") }),
        "node-1",
    );
    pod["metadata"]["annotations"] = json!({
        "example.test/note": "<b> & \"q\" \\ \u{2028} ü 日本 \u{1}", "a": "", "z": "last",
    });
    pod["metadata"]["finalizers"] = json!(["example.test/hold"]);
    pod["spec"]["containers"] = json!([{
        "name": "main", "image": "example.test/image:1",
        "command": ["sh", "-c", "exit 0"],
        "env": [{ "name": "A", "value": "" }, { "name": "B", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } }],
        "ports": [{ "name": "http", "containerPort": 80 }],
        "resources": { "limits": { "cpu": "500m", "memory": "0.5Gi" }, "requests": { "cpu": "0.1" } },
        "livenessProbe": { "httpGet": { "port": "http", "path": "/" }, "periodSeconds": 5 },
        "volumeMounts": [{ "name": "tmp", "mountPath": "/tmp" }],
        "securityContext": { "runAsNonRoot": false, "capabilities": { "drop": ["ALL"] } },
    }]);
    pod["spec"]["initContainers"] = json!([{ "name": "init", "image": "example.test/init:1" }]);
    pod["spec"]["volumes"] = json!([
        { "name": "tmp", "emptyDir": {} },
        { "name": "all", "projected": { "sources": [{ "configMap": { "name": "x" } }] } },
    ]);
    pod["spec"]["tolerations"] = json!([{ "operator": "Exists" }]);
    pod["spec"]["nodeSelector"] = json!({ "b": "2", "a": "1" });
    pod["spec"]["readinessGates"] = json!([{ "conditionType": "example.test/gate" }]);
    pod["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchExpressions": [{ "key": "a", "operator": "In", "values": ["b"] }] },
    }]);
    pod
}
