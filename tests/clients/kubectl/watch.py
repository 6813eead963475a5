"""What follows the second writer: `kubectl get --watch`, which is started again
when its server has gone."""

import threading
import time

from runner import hear, say

# Servers need so long to return after a restart.
PATIENCE_S = 120
EVENT = 'jsonpath={.type} {.object.metadata.name} {.object.metadata.resourceVersion}{"\\n"}'


def follow(kubectl, namespace):
    watched = Watched(kubectl, namespace)
    threading.Thread(target=watched.run, daemon=True).start()
    wait_for(watched, "first")
    say(step="synced")
    wait_for(watched, hear()["last"])
    say(informers={"watch": watched.contents})
    watched.end()


def wait_for(watched, name):
    deadline = time.monotonic() + PATIENCE_S
    while name not in watched.contents and time.monotonic() < deadline:
        time.sleep(0.05)


class Watched:
    def __init__(self, kubectl, namespace):
        self.kubectl = kubectl
        self.arguments = ("get", "configmaps", "-n", namespace, "--watch", "--output-watch-events")
        self.contents, self.process = {}, None

    def run(self):
        while True:
            # Each command begins with all objects that there are.
            contents = {}
            self.process = self.kubectl.open(*self.arguments, "-o", EVENT)
            for line in self.process.stdout:
                kind, *object = line.split()
                if kind == "ERROR":
                    # The stream broke off, and kubectl ends.
                    break
                name, version = object
                if kind == "DELETED":
                    contents.pop(name, None)
                else:
                    contents[name] = version
                self.contents = contents
            self.end()
            time.sleep(0.2)

    def end(self):
        self.process.kill()
        self.process.wait()
