"""kubectl creates a definition, waits until it is established, and creates an object
of that kind at once."""

import json
import pathlib
import subprocess
import sys

from runner import check, say
from tasks import begin, custom, definition, run, until

KUBECTL = sys.argv[1]
KIND = "Gadget"


def main():
    task = begin()
    version = json.loads(run(KUBECTL, "version", "--client", "--output", "json"))
    say(version=version["clientVersion"]["gitVersion"])
    for round in range(1, task["rounds"] + 1):
        group = f"{task['namespace']}-{round}.example.com"
        made = definition(group, KIND)
        name = made["metadata"]["name"]
        for file, thing in [("crd.json", made), ("cr.json", custom(group, KIND, "one", 1))]:
            pathlib.Path(file).write_text(json.dumps(thing))

        def kubectl(*arguments):
            return run(KUBECTL, *arguments, "--namespace", task["namespace"])

        def create():
            kubectl("create", "--filename", "crd.json")
            kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")
            kubectl("create", "--filename", "cr.json")

        check(f"create {round}", create)
        resource = f"gadgets.{group}"

        def is_explained():
            command = [KUBECTL, "explain", "gadgets.spec", f"--api-version={group}/v1"]
            return "replicas" in subprocess.run(command, capture_output=True, text=True).stdout

        # The API server publishes the schema a moment after the definition.
        check(f"explain {round}", lambda: until(is_explained))

        def get():
            shown = json.loads(kubectl("get", resource, "one", "--output", "json"))
            assert shown["spec"] == {"replicas": 1}, shown

        check(f"get {round}", get)
        check(f"delete {round}", lambda: kubectl("delete", f"crd/{name}"))


main()
