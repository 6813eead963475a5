"""stern finds pods by a watch, and shows their logs."""

import sys

import kubelet
from runner import check, expect, say
from tasks import apply, begin, kubectl, run, until, version

STERN = sys.argv[1]


def pod(node, name):
    metadata, spec = kubelet.pod_of(node, cpu="1m", memory="1Mi")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def main():
    task = begin()
    say(version=version())
    namespace = task["namespace"]
    kwok, node = kubelet.start(task)

    def logs(*arguments):
        shown = run(
            STERN, "--kubeconfig", task["kubeconfig"], "--namespace", namespace, "--no-follow",
            "--color", "never", "--only-log-lines", *arguments,
        )
        return sorted(shown.splitlines())

    with kwok:
        names = [f"pod-{number}" for number in range(3)]
        apply(task, *[pod(node, name) for name in names])
        phases = "--output=jsonpath={.items[*].status.phase}"
        running = " ".join(["Running"] * 3)
        check("pods run", lambda: until(lambda: kubectl(task, "get", "pods", phases) == running))
        lines = [f"{name} main {kubelet.LINE}" for name in names]
        for round in range(1, task["rounds"] + 1):
            check(f"logs of all {round}", lambda: expect(logs("."), lines))
            check(f"logs of one {round}", lambda: expect(logs("pod-1"), lines[1:2]))
            check(f"by label {round}", lambda: expect(logs("--selector", "app=web"), lines))
        kubectl(task, "delete", "node", node)


main()
