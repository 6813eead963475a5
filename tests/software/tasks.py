"""What the programs have in common: the task, commands, steps of the runner, and a
kind of their own."""

import json
import os
import pathlib
import subprocess
import time

from runner import hear, say


def step(name):
    """Lets the runner do something, and waits until it is done."""
    say(step=name)
    hear()


def run(*command, fails=False):
    """Runs a command, and returns what it writes."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if (done.returncode != 0) != fails:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def until(condition, seconds=60):
    """Waits until the condition is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s")
        time.sleep(0.1)


def begin():
    """Returns the task, and makes its kubeconfig that of all commands."""
    task = hear()
    os.environ["KUBECONFIG"] = task["kubeconfig"]
    return task


def version():
    """Returns the release of the program beside this file, as it was built."""
    return pathlib.Path(__file__).with_name("version").read_text().strip()


def kubectl(task, *arguments, may_fail=False):
    """Runs kubectl in the task's namespace, and returns what it writes to stdout."""
    done = subprocess.run(
        [task["kubectl"], "--namespace", task["namespace"], *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode != 0 and not may_fail:
        raise AssertionError(f"kubectl {arguments}: {done.returncode}\n{done.stderr}")
    return done.stdout


def apply(task, *things):
    """Creates things or changes them to what they shall be."""
    file = pathlib.Path("things.json")
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))
    kubectl(task, "apply", "--filename", str(file))


def definition(group, kind):
    """Returns the definition of a namespaced custom resource."""
    plural = kind.lower() + "s"
    spec = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    schema = {
        "type": "object",
        "properties": {
            "spec": spec,
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def custom(group, kind, name, replicas):
    """Returns an object of that kind."""
    return {
        "apiVersion": f"{group}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"replicas": replicas},
    }
