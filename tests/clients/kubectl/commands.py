"""Runs kubectl."""

import json
import subprocess

# The longest time that a command may take.
PATIENCE_S = 60


class Kubectl:
    def __init__(self, path, kubeconfig):
        self.start = [path, "--kubeconfig", kubeconfig]

    def version(self):
        told = json.loads(self.ok("version", "--client", "-o", "json"))
        return told["clientVersion"]["gitVersion"].removeprefix("v")

    def run(self, *arguments, stdin=None):
        text = None if stdin is None else json.dumps(stdin)
        return subprocess.run(
            [*self.start, *arguments],
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def ok(self, *arguments, stdin=None):
        """Returns what the command prints. It must succeed."""
        ended = self.run(*arguments, stdin=stdin)
        if ended.returncode != 0:
            raise AssertionError(f"kubectl {arguments}: {ended.stderr}")
        return ended.stdout

    def refused(self, reason, *arguments, stdin=None):
        """Expects the command to fail for this reason."""
        ended = self.run(*arguments, stdin=stdin)
        if ended.returncode == 0 or reason not in ended.stderr:
            raise AssertionError(f"kubectl {arguments}: {ended}")

    def open(self, *arguments):
        """Starts a command whose output is read line by line."""
        return subprocess.Popen(
            [*self.start, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
