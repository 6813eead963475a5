"""kr8s makes, finds, waits for, scales, watches and deletes objects."""

import importlib.metadata

import kr8s
from kr8s.objects import ConfigMap, Deployment

from runner import check, expect, say
from tasks import begin


def main():
    task = begin()
    namespace = task["namespace"]
    say(version=importlib.metadata.version("kr8s"))
    api = kr8s.api(kubeconfig=task["kubeconfig"])
    for round in range(1, task["rounds"] + 1):
        check(f"objects {round}", lambda: objects(api, namespace, f"thing-{round}"))
        check(f"watch {round}", lambda: watch(api, namespace, f"seen-{round}"))
    kinds = lambda: {resource["kind"] for resource in api.api_resources()}
    check("resources", lambda: expect("Pod" in kinds(), True))


def objects(api, namespace, name):
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    made = {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
    }
    deployment = Deployment(made, api=api)
    deployment.create()
    assert deployment.exists()
    deployment.patch({"spec": {"replicas": 2}})
    deployment.refresh()
    assert deployment.replicas == 2
    found = list(api.get("deployments", namespace=namespace, label_selector=labels))
    assert [one.name for one in found] == [name], found
    deployment.label(seen="yes")
    assert Deployment.get(name, namespace=namespace, api=api).labels["seen"] == "yes"
    deployment.delete()
    deployment.wait("delete", timeout=30)


def watch(api, namespace, name):
    made = ConfigMap({"metadata": {"name": name, "namespace": namespace}}, api=api)
    made.create()
    for kind, object in api.watch("configmaps", namespace=namespace):
        if object.name != name:
            continue
        if kind == "ADDED":
            object.delete()
        if kind == "DELETED":
            return
    raise AssertionError("the watch has ended")


main()
