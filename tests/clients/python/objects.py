"""The checks of reads, writes and errors."""

from kubernetes import client, dynamic, watch

from errors import refused
from runner import check, expect


def make_checks(api, task):
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    namespace = task["namespace"]
    check_objects(core, namespace)
    check("patch strategic", lambda: strategic_patch(apps, namespace))
    check_apply(core, namespace)
    check("pages", lambda: pages(core, task["pages"]))
    check("dynamic list", lambda: dynamic_list(api, task["pages"]))
    check_errors(core, task)
    check("delete", lambda: delete(core, namespace))


def config_map(name, data, **metadata):
    return client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name=name, **metadata), data=data
    )


def check_objects(core, namespace):
    def read():
        return core.read_namespaced_config_map("crud", namespace)

    def create():
        made = config_map("crud", {"a": "1"}, labels={"app": "crud"})
        made = core.create_namespaced_config_map(namespace, made)
        expect(made.data, {"a": "1"})

    def listed():
        found = core.list_namespaced_config_map(namespace, label_selector="app=crud")
        expect([item.metadata.name for item in found.items], ["crud"])
        expect(found.items[0].metadata.resource_version, read().metadata.resource_version)

    def replace():
        changed = read()
        changed.data = {"a": "2"}
        core.replace_namespaced_config_map("crud", namespace, changed)
        expect(read().data, {"a": "2"})

    def patch_json():
        patch = [{"op": "replace", "path": "/data/a", "value": "3"}]
        core.patch_namespaced_config_map(
            "crud", namespace, patch, _content_type="application/json-patch+json"
        )
        expect(read().data, {"a": "3"})

    def patch_merge():
        patch = {"data": {"a": None, "b": "1"}}
        core.patch_namespaced_config_map(
            "crud", namespace, patch, _content_type="application/merge-patch+json"
        )
        expect(read().data, {"b": "1"})

    check("create", create)
    check("read", lambda: expect(read().data, {"a": "1"}))
    check("list", listed)
    check("replace", replace)
    check("patch json", patch_json)
    check("patch merge", patch_merge)


def strategic_patch(apps, namespace):
    labels = {"app": "strategic"}
    containers = [
        client.V1Container(name=name, image="example.test/image:1") for name in ("a", "b")
    ]
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(containers=containers),
    )
    deployment = client.V1Deployment(
        metadata=client.V1ObjectMeta(name="strategic"),
        spec=client.V1DeploymentSpec(
            selector=client.V1LabelSelector(match_labels=labels), template=template
        ),
    )
    apps.create_namespaced_deployment(namespace, deployment)
    change = {"name": "b", "image": "example.test/image:2"}
    patch = {"spec": {"template": {"spec": {"containers": [change]}}}}
    apps.patch_namespaced_deployment(
        "strategic",
        namespace,
        patch,
        _content_type="application/strategic-merge-patch+json",
    )
    read = apps.read_namespaced_deployment("strategic", namespace)
    images = {c.name: c.image for c in read.spec.template.spec.containers}
    expect(images, {"a": "example.test/image:1", "b": "example.test/image:2"})


def check_apply(core, namespace):
    def apply(manager, **options):
        applied = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "applied"},
            "data": {"owner": manager},
        }
        return core.patch_namespaced_config_map(
            "applied",
            namespace,
            applied,
            field_manager=manager,
            _content_type="application/apply-patch+yaml",
            **options,
        )

    def first():
        expect(apply("one").data, {"owner": "one"})

    def conflict():
        refused(lambda: apply("two"), 409, "Conflict")

    def force():
        apply("two", force=True)
        read = core.read_namespaced_config_map("applied", namespace)
        expect(read.data, {"owner": "two"})

    check("apply", first)
    check("apply conflict", conflict)
    check("apply by force", force)


def pages(core, task):
    names, requests, more = [], 0, None
    while requests == 0 or more:
        options = {"_continue": more} if more else {}
        page = core.list_namespaced_config_map(
            task["namespace"], limit=task["limit"], **options
        )
        names += [item.metadata.name for item in page.items]
        more, requests = page.metadata._continue, requests + 1
    expect(requests, -(-task["objects"] // task["limit"]))
    expect(names, [f"page-{number:02}" for number in range(task["objects"])])


def dynamic_list(api, task):
    resource = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")
    found = resource.get(namespace=task["namespace"])
    expect(len(found.items), task["objects"])


def check_errors(core, task):
    namespace, pages, expired = task["namespace"], task["pages"], task["expired"]

    def create(name, data):
        core.create_namespaced_config_map(namespace, config_map(name, data))

    def stale():
        old = core.read_namespaced_config_map("crud", namespace)
        old.metadata.resource_version = "1"
        core.replace_namespaced_config_map("crud", namespace, old)

    def continue_expired():
        core.list_namespaced_config_map(
            pages["namespace"], limit=pages["limit"], _continue=expired["continue"]
        )

    def watch_expired():
        events = watch.Watch().stream(
            core.list_namespaced_config_map,
            pages["namespace"],
            resource_version=expired["resourceVersion"],
            timeout_seconds=20,
        )
        for event in events:
            raise AssertionError(f"an event: {event}")

    def evict():
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="guarded"))
        core.create_namespaced_pod_eviction("guarded", namespace, eviction)

    for name, action, status, reason in [
        ("404", lambda: core.read_namespaced_config_map("missing", namespace), 404, "NotFound"),
        ("409 exists", lambda: create("crud", {}), 409, "AlreadyExists"),
        ("409 conflict", stale, 409, "Conflict"),
        ("410 page", continue_expired, 410, "Expired"),
        ("410 watch", watch_expired, 410, "Expired"),
        ("422", lambda: create("invalid", {"not valid": ""}), 422, "Invalid"),
        ("429", evict, 429, "TooManyRequests"),
    ]:
        check(name, lambda: refused(action, status, reason))


def delete(core, namespace):
    core.delete_namespaced_config_map("crud", namespace)
    refused(lambda: core.read_namespaced_config_map("crud", namespace), 404, "NotFound")
