"""What follows the second writer: the library's informer, and its watch in a
loop of its own."""

import threading
import time

from kubernetes import watch
from kubernetes.client.exceptions import ApiException
from kubernetes.informer import SharedInformer

from runner import hear, say

# Servers need so long to return after a restart.
PATIENCE_S = 120


def follow(core, task):
    namespace = task["changes"]
    informer = SharedInformer(core.list_namespaced_config_map, namespace=namespace)
    informer.start()
    loop = WatchLoop(core, namespace)
    threading.Thread(target=loop.run, daemon=True).start()
    wait(lambda: contents(informer.cache.list()) and loop.synced)
    say(step="synced")
    last = hear()["last"]
    wait(lambda: last in contents(informer.cache.list()) and last in loop.contents)
    held = {"informer": contents(informer.cache.list()), "watch": loop.contents}
    say(informers=held)


def contents(objects):
    return {o.metadata.name: o.metadata.resource_version for o in objects}


def wait(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


class WatchLoop:
    """Lists, and watches from the list's version on. It lists again only after a
    410."""

    def __init__(self, core, namespace):
        self.core, self.namespace = core, namespace
        self.contents, self.synced = {}, False

    def run(self):
        version = None
        while True:
            stream = watch.Watch()
            try:
                if version is None:
                    found = self.core.list_namespaced_config_map(self.namespace)
                    self.contents = contents(found.items)
                    version, self.synced = found.metadata.resource_version, True
                events = stream.stream(
                    self.core.list_namespaced_config_map,
                    self.namespace,
                    resource_version=version,
                    allow_watch_bookmarks=True,
                )
                for event in events:
                    version = event["object"].metadata.resource_version
                    self.see(event["type"], event["object"].metadata)
            except ApiException as error:
                version = None if error.status == 410 else version
                time.sleep(0.1)
            except Exception:
                # The server is gone for a while.
                time.sleep(0.1)

    def see(self, kind, metadata):
        if kind == "DELETED":
            self.contents.pop(metadata.name, None)
        elif kind in ("ADDED", "MODIFIED"):
            self.contents[metadata.name] = metadata.resource_version
