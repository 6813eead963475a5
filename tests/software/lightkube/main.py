"""lightkube creates, applies, patches, lists, watches and deletes objects."""

import importlib.metadata

import lightkube
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Node

from runner import check, say
from tasks import begin


def main():
    task = begin()
    namespace = task["namespace"]
    say(version=importlib.metadata.version("lightkube"))
    config = lightkube.KubeConfig.from_file(task["kubeconfig"])
    client = lightkube.Client(config=config, namespace=namespace, field_manager="lightkube")
    for round in range(1, task["rounds"] + 1):
        check(f"objects {round}", lambda: objects(client, namespace, f"thing-{round}"))
        check(f"watch {round}", lambda: watch(client, namespace, f"seen-{round}"))
    check("nodes", lambda: list(client.list(Node)))


def objects(client, namespace, name):
    made = ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data={"a": "1"})
    client.create(made)
    client.patch(ConfigMap, name, {"metadata": {"labels": {"thing": name}}})
    applied = ConfigMap(
        apiVersion="v1", kind="ConfigMap", metadata=ObjectMeta(name=name), data={"b": "2"}
    )
    client.apply(applied, force=True)
    read = client.get(ConfigMap, name)
    assert read.data == {"a": "1", "b": "2"}, read.data
    found = [one.metadata.name for one in client.list(ConfigMap, labels={"thing": name})]
    assert found == [name], found
    paged = [one.metadata.name for one in client.list(ConfigMap, chunk_size=2)]
    assert name in paged, paged
    client.delete(ConfigMap, name)
    try:
        client.get(ConfigMap, name)
    except lightkube.ApiError as error:
        assert error.status.code == 404, error
    else:
        raise AssertionError("it is still there")


def watch(client, namespace, name):
    listed = client.list(ConfigMap)
    # Its version is known when the list has been read.
    list(listed)
    version = listed.resourceVersion
    client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace)))
    for kind, object in client.watch(ConfigMap, resource_version=version):
        if object.metadata.name != name:
            continue
        if kind == "ADDED":
            client.delete(ConfigMap, name)
        if kind == "DELETED":
            return


main()
