"""metrics-server, kube-controller-manager and kwok's kubelet run together. kubectl shows
what pods and nodes use, and a HorizontalPodAutoscaler scales a deployment by it. Nobody
lists the resource metrics but those who want them."""

import json
import pathlib
import ssl
import sys
import time
import urllib.request

import kubelet
from runner import check, expect, say
from servers import Server, free
from tasks import apply, begin, kubectl, step, until, version

PROGRAM = sys.argv[1]
# Longer than any pause after which something that fails is tried again soon.
QUIET = 10


def deployment(node):
    metadata, spec = kubelet.pod_of(node, cpu="250m", memory="64Mi")
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": metadata["labels"]},
            "template": {"metadata": metadata, "spec": spec},
        },
    }


def autoscaler():
    metric = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 100}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": metric}],
        },
    }


def registration(namespace, port):
    """Returns the service that leads to metrics-server, and its APIService."""
    metadata = {"name": "metrics-server", "namespace": namespace}
    service = {"type": "ExternalName", "externalName": "localhost"}
    return [
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": {**metadata, "port": port},
            },
        },
    ]


def lists(task, port):
    """Returns how many lists metrics-server has answered, by its own metrics."""
    user = json.loads(pathlib.Path(task["kubeconfig"]).read_text())["users"][0]["user"]
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(user["client-certificate"], user["client-key"])
    url = f"https://127.0.0.1:{port}/metrics"
    with urllib.request.urlopen(url, timeout=10, context=context) as answer:
        text = answer.read().decode()
    wanted = [
        line
        for line in text.splitlines()
        if line.startswith("apiserver_request_total{") and 'group="metrics.k8s.io"' in line
    ]
    return sum(float(line.rsplit(" ", 1)[1]) for line in wanted if 'verb="LIST"' in line)


def main():
    task = begin()
    say(version=version())
    namespace, config = task["namespace"], task["kubeconfig"]
    controllers = Server(
        str(pathlib.Path(__file__).with_name("kube-controller-manager")),
        *["--kubeconfig", config, "--leader-elect=false", "--secure-port=0"],
        "--horizontal-pod-autoscaler-sync-period=1s",
        "--horizontal-pod-autoscaler-cpu-initialization-period=1s",
        "--horizontal-pod-autoscaler-initial-readiness-delay=1s",
        "--controllers=deployment-controller,replicaset-controller,"
        "horizontal-pod-autoscaler-controller,garbage-collector-controller",
    )
    port = free()
    metrics_server = Server(
        PROGRAM,
        *[f"--{name}={config}" for name in ["kubeconfig", "authentication-kubeconfig"]],
        *[f"--authorization-kubeconfig={config}", "--cert-dir=certificates"],
        *["--bind-address=127.0.0.1", f"--secure-port={port}", "--metric-resolution=10s"],
        "--kubelet-request-timeout=5s",
        *["--kubelet-insecure-tls", "--kubelet-use-node-status-port"],
        "--kubelet-preferred-address-types=InternalIP",
    )
    kwok, node = kubelet.start(task)

    def shown(*what):
        """Returns the lines of kubectl top, without the names and percentages."""
        lines = kubectl(task, "top", *what, "--no-headers", may_fail=True).splitlines()
        return [line.split()[1:] for line in lines]

    def replicas():
        output = "--output=jsonpath={.status.readyReplicas}"
        return kubectl(task, "get", "deployment", "web", output)

    def pods_are_shown(number):
        until(lambda: shown("pods") == [["250m", "64Mi"]] * number, 90)

    def node_is_shown():
        cells = shown("node", node)
        expect([cells[0][0], cells[0][2]], ["750m", "192Mi"])

    def scaled():
        apply(task, autoscaler())
        until(lambda: replicas() == "3", 90)

    def nobody_asks():
        """Tells whether the autoscaler, which asks each second, has stopped."""
        before = lists(task, port)
        time.sleep(2)
        return lists(task, port) == before

    def nobody_lists():
        kubectl(task, "delete", "horizontalpodautoscaler", "web")
        until(nobody_asks)
        kubectl(task, "get", "--raw", "/apis/metrics.k8s.io/v1beta1/pods")
        before = lists(task, port)
        assert before > 0, "not even the lists of clients are counted"
        time.sleep(QUIET)
        expect(lists(task, port), before)

    def collected():
        kubectl(task, "delete", "deployment", "web")
        until(lambda: "web" not in kubectl(task, "get", "pods,replicasets", "--output=name"))

    with controllers, metrics_server, kwok:
        apply(task, *registration(namespace, port), deployment(node))
        check("a pod runs", lambda: until(lambda: replicas() == "1"))
        check("what a pod uses", lambda: pods_are_shown(1))
        check("scaled by what they use", scaled)
        check("what all pods use", lambda: pods_are_shown(3))
        check("what the node uses", node_is_shown)
        check("nobody else lists", nobody_lists)
        for what in ["restart apifront", "restart apiserver"]:
            step(what)
            check(f"what all pods use after {what}", lambda: pods_are_shown(3))
        check("garbage is collected", collected)
        kubectl(task, "delete", "apiservice", "v1beta1.metrics.k8s.io")
        kubectl(task, "delete", "node", node)


main()
