"""The checks of reads, writes and errors."""

import json

from runner import check, expect


def make(kubectl, task):
    namespace = task["namespace"]
    here = ("--namespace", namespace)
    check_objects(kubectl, here)
    check_apply(kubectl, here)
    check("pages", lambda: pages(kubectl, task["pages"]))
    check_errors(kubectl, task, here)
    check_commands(kubectl, here)


def config_map(name, data, **metadata):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data,
    }


def check_objects(kubectl, here):
    def read():
        return json.loads(kubectl.ok("get", "configmap", "crud", "-o", "json", *here))

    def create():
        made = config_map("crud", {"a": "1"}, labels={"app": "crud"})
        expect(kubectl.ok("create", "-f", "-", *here, stdin=made), "configmap/crud created\n")

    def listed():
        names = kubectl.ok("get", "configmaps", "-l", "app=crud", "-o", "name", *here)
        expect(names, "configmap/crud\n")

    def replace():
        changed = read()
        changed["data"] = {"a": "2"}
        kubectl.ok("replace", "-f", "-", *here, stdin=changed)
        expect(read()["data"], {"a": "2"})

    def patch(kind, patch, data):
        told = json.dumps(patch)
        kubectl.ok("patch", "configmap", "crud", "--type", kind, "-p", told, *here)
        expect(read()["data"], data)

    def delete():
        kubectl.ok("create", "configmap", "deleted", *here)
        # It waits, by a watch, until the object is gone.
        kubectl.ok("delete", "configmap", "deleted", "--timeout", "30s", *here)
        kubectl.refused("(NotFound)", "get", "configmap", "deleted", *here)

    replaced = [{"op": "replace", "path": "/data/a", "value": "3"}]
    merged = {"data": {"a": None, "b": "1"}}
    check("create", create)
    check("read", lambda: expect(read()["data"], {"a": "1"}))
    check("list", listed)
    check("replace", replace)
    check("patch json", lambda: patch("json", replaced, {"a": "3"}))
    check("patch merge", lambda: patch("merge", merged, {"b": "1"}))
    check("patch strategic", lambda: strategic_patch(kubectl, here))
    check("delete", delete)


def strategic_patch(kubectl, here):
    labels = {"app": "strategic"}
    containers = [{"name": name, "image": "example.test/image:1"} for name in ("a", "b")]
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "strategic"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }
    kubectl.ok("create", "-f", "-", *here, stdin=deployment)
    change = {"name": "b", "image": "example.test/image:2"}
    patch = {"spec": {"template": {"spec": {"containers": [change]}}}}
    told = json.dumps(patch)
    kubectl.ok("patch", "deployment", "strategic", "--type", "strategic", "-p", told, *here)
    path = "jsonpath={.spec.template.spec.containers[*].image}"
    images = kubectl.ok("get", "deployment", "strategic", "-o", path, *here)
    expect(images, "example.test/image:1 example.test/image:2")


def check_apply(kubectl, here):
    def arguments(manager):
        return ("apply", "--server-side", "--field-manager", manager, "-f", "-", *here)

    def applied(manager):
        return config_map("applied", {"owner": manager})

    def first():
        kubectl.ok(*arguments("one"), stdin=applied("one"))

    def conflict():
        kubectl.refused('conflict with "one"', *arguments("two"), stdin=applied("two"))

    def force():
        kubectl.ok(*arguments("two"), "--force-conflicts", stdin=applied("two"))
        owner = ("get", "configmap", "applied", "-o", "jsonpath={.data.owner}", *here)
        expect(kubectl.ok(*owner), "two")

    check("apply", first)
    check("apply conflict", conflict)
    check("apply by force", force)


def pages(kubectl, task):
    chunks = ("--chunk-size", str(task["limit"]))
    names = kubectl.ok("get", "configmaps", "-n", task["namespace"], "-o", "name", *chunks)
    expected = [f"configmap/page-{number:02}" for number in range(task["objects"])]
    expect(names.split(), expected)


def check_errors(kubectl, task, here):
    namespace, expired = task["namespace"], task["expired"]
    paged = f"/api/v1/namespaces/{task['pages']['namespace']}/configmaps"
    page = f"{paged}?limit={task['pages']['limit']}&continue={expired['continue']}"
    version = expired["resourceVersion"]
    existing = config_map("crud", {})
    stale = config_map("crud", {}, resourceVersion="1")
    invalid = config_map("invalid", {"not valid": ""})
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "guarded", "namespace": namespace},
    }
    evict = f"/api/v1/namespaces/{namespace}/pods/guarded/eviction"

    def refused(name, reason, *arguments, stdin=None):
        check(name, lambda: kubectl.refused(reason, *arguments, stdin=stdin))

    def watch_expired():
        event = json.loads(kubectl.ok("get", "--raw", f"{paged}?watch=1&resourceVersion={version}"))
        expect(event["type"], "ERROR")
        expect((event["object"]["code"], event["object"]["reason"]), (410, "Expired"))

    refused("404", "(NotFound)", "get", "configmap", "missing", *here)
    refused("409 exists", "(AlreadyExists)", "create", "-f", "-", *here, stdin=existing)
    refused("409 conflict", "(Conflict)", "replace", "-f", "-", *here, stdin=stale)
    refused("410 page", "(Expired)", "get", "--raw", page)
    check("410 watch", watch_expired)
    refused("422", "is invalid", "create", "-f", "-", *here, stdin=invalid)
    refused("429", "(TooManyRequests)", "create", "--raw", evict, "-f", "-", stdin=eviction)


def check_commands(kubectl, here):
    """The checks of commands that only kubectl has."""

    def apply():
        manifest = config_map("by-client", {"a": "1"})
        for told in ("created", "unchanged"):
            printed = kubectl.ok("apply", "-f", "-", *here, stdin=manifest)
            expect(printed, f"configmap/by-client {told}\n")
        manifest["data"]["a"] = "2"
        printed = kubectl.ok("apply", "-f", "-", *here, stdin=manifest)
        expect(printed, "configmap/by-client configured\n")

    def table():
        lines = kubectl.ok("get", "configmaps", "crud", "applied", *here).splitlines()
        expect([line.split()[:2] for line in lines], [["NAME", "DATA"], ["crud", "1"], ["applied", "1"]])

    def wait():
        until = "jsonpath={.data.b}=1"
        kubectl.ok("wait", "configmap/crud", "--for", until, "--timeout", "30s", *here)

    def describe():
        printed = kubectl.ok("describe", "deployment", "strategic", *here)
        expect("example.test/image:2" in printed, True)

    check("apply by the client", apply)
    check("table", table)
    check("wait", wait)
    check("describe", describe)
