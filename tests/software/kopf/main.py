"""An operator of kopf goes on when the servers that it watches are killed."""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys

from runner import check, say
from tasks import begin, custom, definition, kubectl, step, until

KIND = "Widget"


def main():
    task = begin()
    namespace = task["namespace"]
    group = f"{namespace}.example.com"
    say(version=importlib.metadata.version("kopf"))

    def create(thing):
        pathlib.Path("thing.json").write_text(json.dumps(thing))
        kubectl(task, "create", "--filename", "thing.json")

    made = definition(group, KIND)
    create(made)
    kubectl(task, "wait", "--for=condition=Established", f"crd/{made['metadata']['name']}")
    operator = subprocess.Popen(
        [sys.executable, "-m", "kopf", "run", "--standalone", "--namespace", namespace]
        + [os.path.join(os.path.dirname(__file__), "operator_under_test.py")],
        env={**os.environ, "GROUP": group},
        stdout=sys.stderr,
    )

    def is_handled(name):
        create(custom(group, KIND, name, 3))
        seen = ["get", f"widgets.{group}", name, "--output", "jsonpath={.status.seen}"]
        until(lambda: kubectl(task, *seen) == "3", 90)
        assert operator.poll() is None, "the operator has ended"

    try:
        check("handled", lambda: is_handled("first"))
        for name, what in [
            ("second", "restart apiserver"),
            ("third", "restart apifront"),
            ("fourth", "restart apiserver"),
        ]:
            step(what)
            check(f"handled after {what}: {name}", lambda: is_handled(name))
    finally:
        operator.terminate()
        operator.wait(30)


main()
