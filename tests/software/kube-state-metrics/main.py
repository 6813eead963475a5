"""kube-state-metrics has dozens of informers. It shows the same series before and
after the servers have been killed, and those of an object that is made then."""

import json
import socket
import subprocess
import sys
import urllib.request

from runner import check, expect, say
from tasks import begin, step, until, version

PROGRAM = sys.argv[1]
# Series that count the program itself, and the API server's own lease: its holder has a
# new name after each start.
OWN = ("kube_state_metrics_", "process_", "go_", 'kube_lease_owner{lease="apiserver-')


def free():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def main():
    task = begin()
    say(version=version())
    port = free()
    program = subprocess.Popen(
        [PROGRAM, "--kubeconfig", task["kubeconfig"], "--host", "127.0.0.1"]
        + ["--telemetry-host", "127.0.0.1", "--port", str(port)]
        + ["--telemetry-port", str(free())],
        stdout=sys.stderr,
    )

    def series():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return set()
        lines = (line.split(" ")[0] for line in text.splitlines() if not line.startswith("#"))
        return {line for line in lines if not line.startswith(OWN)}

    def has(name):
        return any(f'configmap="{name}"' in line for line in series())

    def make(name):
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        done = subprocess.run(
            [task["kubectl"], "create", "--namespace", task["namespace"], "--filename", "-"],
            input=json.dumps(made),
            text=True,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        until(lambda: has(name), 60)

    try:
        check("series", lambda: until(lambda: len(series()) > 500))
        check("new object", lambda: make("first"))
        before = series()
        for name, what in [("second", "restart apifront"), ("third", "restart apiserver")]:
            step(what)
            check(f"new object after {what}", lambda: make(name))
        check("no series is lost", lambda: expect(before - series(), set()))
        assert program.poll() is None, "the program has ended"
    finally:
        program.terminate()
        program.wait(30)


main()
