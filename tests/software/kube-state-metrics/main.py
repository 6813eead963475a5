"""Two processes of kube-state-metrics have dozens of informers each. They show the same
series before and after the servers have been killed, and those of an object that is made
then."""

import contextlib
import sys
import urllib.request

from runner import check, expect, say
from servers import Server, free
from tasks import apply, begin, step, until, version

PROGRAM = sys.argv[1]
PROCESSES = 2
# Series that count the program itself, and the API server's own lease: its holder has a
# new name after each start.
OWN = ("kube_state_metrics_", "process_", "go_", 'kube_lease_owner{lease="apiserver-')


def main():
    task = begin()
    say(version=version())
    ports = [free() for _ in range(PROCESSES)]
    programs = contextlib.ExitStack()
    for port in ports:
        program = Server(
            *[PROGRAM, "--kubeconfig", task["kubeconfig"], "--host", "127.0.0.1"],
            *["--telemetry-host", "127.0.0.1", "--port", str(port)],
            *["--telemetry-port", str(free())],
        )
        programs.enter_context(program)

    def series_of(port):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            return set()
        lines = (line.split(" ")[0] for line in text.splitlines() if not line.startswith("#"))
        return {line for line in lines if not line.startswith(OWN)}

    def series():
        """Returns the series that all processes show."""
        return set.intersection(*map(series_of, ports))

    def has(name):
        return any(f'configmap="{name}"' in line for line in series())

    def make(name):
        apply(task, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
        until(lambda: has(name), 60)

    with programs:
        check("series", lambda: until(lambda: len(series()) > 500))
        check("new object", lambda: make("first"))
        before = series()
        for name, what in [("second", "restart apifront"), ("third", "restart apiserver")]:
            step(what)
            check(f"new object after {what}", lambda: make(name))
        check("no series is lost", lambda: expect(before - series(), set()))


main()
