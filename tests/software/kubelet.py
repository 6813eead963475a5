"""kwok as the kubelet of one node that does not exist. Its pods run at once, use what
their annotations say, and log one line."""

import datetime
import json
import os
import pathlib
import subprocess

from servers import Server, free
from tasks import apply, until

LINE = "a line of the container"
METRICS = "/metrics/nodes/{nodeName}/metrics/resource"
READY = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
CONTAINER = [
    {"name": "container", "value": "container.name"},
    {"name": "namespace", "value": "pod.metadata.namespace"},
    {"name": "pod", "value": "pod.metadata.name"},
]
SERIES = [
    ("container_start_time_seconds", "container", "gauge", "pod.SinceSecond()"),
    (
        "container_cpu_usage_seconds_total",
        "container",
        "counter",
        'pod.CumulativeUsage("cpu", container.name)',
    ),
    (
        "container_memory_working_set_bytes",
        "container",
        "gauge",
        'pod.Usage("memory", container.name)',
    ),
    ("node_cpu_usage_seconds_total", "node", "counter", 'node.CumulativeUsage("cpu")'),
    ("node_memory_working_set_bytes", "node", "gauge", 'node.Usage("memory")'),
]


def stage(name, kind, key, operator, values, following):
    where = {"key": key, "operator": operator, **({"values": values} if values else {})}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {
            "resourceRef": {"apiGroup": "v1", "kind": kind},
            "selector": {"matchExpressions": [where]},
            "next": following,
        },
    }


def metric(name, dimension, kind, value):
    series = {"name": name, "dimension": dimension, "kind": kind, "value": value}
    return {**series, "labels": CONTAINER if dimension == "container" else []}


def status(**parts):
    return {"statusTemplate": json.dumps(parts)}


def documents(log, port):
    """Returns what kwok does, as documents of its configuration."""
    is_ready = '.status.conditions.[] | select( .type == "Ready" ) | .status'
    size = {"cpu": "64", "memory": "256Gi", "pods": "200"}
    address = [{"type": "InternalIP", "address": "127.0.0.1"}]
    node = status(
        conditions=READY,
        addresses=address,
        allocatable=size,
        capacity=size,
        daemonEndpoints={"kubeletEndpoint": {"Port": port}},
    )
    container = {"name": "main", "image": "none", "imageID": "", "ready": True, "restartCount": 0}
    container.update(containerID="ID", state={"running": {"startedAt": "NOW"}})
    conditions = [{**condition, "lastTransitionTime": "NOW"} for condition in READY]
    pod = status(
        phase="Running",
        startTime="NOW",
        podIP="10.0.0.1",
        conditions=conditions,
        containerStatuses=[container],
    )
    text = pod["statusTemplate"].replace('"NOW"', "{{ Now | Quote }}")
    pod["statusTemplate"] = text.replace('"ID"', '{{ printf "kwok://%s" .metadata.uid | Quote }}')
    usage = 'Quantity(pod.metadata.annotations["{0}"])'
    own = {"apiVersion": "kwok.x-k8s.io/v1alpha1"}
    return [
        stage("node-ready", "Node", is_ready, "NotIn", ["True"], node),
        stage("pod-gone", "Pod", ".metadata.deletionTimestamp", "Exists", [], {"delete": True}),
        stage("pod-ready", "Pod", ".status.phase", "In", ["Pending"], pod),
        {
            **own,
            "kind": "ClusterLogs",
            "metadata": {"name": "logs"},
            "spec": {"logs": [{"logsFile": str(log)}]},
        },
        {
            **own,
            "kind": "ClusterResourceUsage",
            "metadata": {"name": "usage"},
            "spec": {
                "usages": [
                    {
                        "usage": {
                            "cpu": {"expression": usage.format("cpu")},
                            "memory": {"expression": usage.format("memory")},
                        }
                    }
                ]
            },
        },
        {
            **own,
            "kind": "Metric",
            "metadata": {"name": "resource"},
            "spec": {
                "path": METRICS,
                "metrics": [metric(*series) for series in SERIES],
            },
        },
    ]


def start(task):
    """Starts kwok with a node of its own, named after the namespace."""
    folder = pathlib.Path("kwok").resolve()
    folder.mkdir()
    log = folder / "container.log"
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    log.write_text(f"{now} stdout F {LINE}\n")
    port = free()
    config = folder / "kwok.yaml"
    config.write_text("\n---\n".join(map(json.dumps, documents(log, port))))
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=kwok"]
        + ["-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    node = f"node-{task['namespace']}"
    kwok = Server(
        str(pathlib.Path(__file__).with_name("kwok")),
        *["--kubeconfig", task["kubeconfig"], "--config", str(config)],
        *["--manage-nodes-with-label-selector", f"of={task['namespace']}"],
        *["--node-ip", "127.0.0.1", "--node-port", str(port)],
        *["--server-address", f"127.0.0.1:{port}", "--node-lease-duration-seconds", "0"],
        *["--tls-cert-file", str(certificate), "--tls-private-key-file", str(key)],
        environment={**os.environ, "HOME": str(folder)},
    )
    annotations = {"metrics.k8s.io/resource-metrics-path": METRICS.format(nodeName=node)}
    metadata = {"name": node, "annotations": annotations, "labels": {"of": task["namespace"]}}
    apply(task, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    return kwok, node


def pod_of(node, **usage):
    """Returns the metadata and the spec of a pod on that node."""
    requests = {"requests": {"cpu": "100m", "memory": "32Mi"}}
    container = {"name": "main", "image": "none", "resources": requests}
    tolerations = [{"operator": "Exists"}]
    spec = {"nodeName": node, "containers": [container], "tolerations": tolerations}
    return {"annotations": usage, "labels": {"app": "web"}}, spec
