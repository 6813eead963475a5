"""k9s shows views of a cluster in a terminal of tmux: pods, nodes, config maps, custom
objects and namespaces, and an object that is made meanwhile. A tenant is shown the pods
of all namespaces that they may read."""

import os
import pathlib
import subprocess
import sys
import time

from runner import check, say
from tasks import apply, begin, custom, definition, kubectl, until, version

K9S = sys.argv[1]


class Terminal:
    """A terminal in which a program runs."""

    def __init__(self, *command):
        self.socket = str(pathlib.Path("tmux.socket").resolve())
        self.tmux("new-session", "-d", "-x", "180", "-y", "50", *command)

    def tmux(self, *arguments):
        done = subprocess.run(
            ["tmux", "-S", self.socket, "-f", "/dev/null", *arguments],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def type(self, text):
        self.tmux("send-keys", "-l", text)
        self.tmux("send-keys", "Enter")

    def shows(self, *texts):
        """Waits until the screen shows all of the texts."""
        try:
            until(lambda: all(text in self.screen() for text in texts))
        except AssertionError as error:
            raise AssertionError(f"{texts} are not on the screen:\n{self.screen()}") from error

    def screen(self):
        return self.tmux("capture-pane", "-p")


def config_map(name):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def main():
    task = begin()
    say(version=version())
    namespace = task["namespace"]
    group = f"{namespace}.example.com"
    made = definition(group, "Gadget")
    apply(task, made)
    kubectl(task, "wait", "--for=condition=Established", f"crd/{made['metadata']['name']}")
    apply(task, custom(group, "Gadget", "a-gadget", 1), config_map("a-config-map"))
    os.environ["HOME"] = str(pathlib.Path.cwd())
    os.environ["TERM"] = "xterm-256color"
    terminal = Terminal(
        K9S, "--kubeconfig", task["kubeconfig"], "--namespace", namespace, "--command",
        "configmaps", "--logoless", "--splashless",
    )
    try:
        check("config maps", lambda: terminal.shows(f"configmaps({namespace})", "a-config-map"))

        def made_meanwhile():
            apply(task, config_map("made-meanwhile"))
            terminal.shows("made-meanwhile")

        check("an object made meanwhile", made_meanwhile)

        def opens(view, *texts):
            terminal.type(f":{view}")
            terminal.shows(*texts)

        check("custom objects", lambda: opens(f"gadgets.{group}", "gadgets", "a-gadget"))
        check("namespaces", lambda: opens("namespaces", "namespaces(all)", namespace))
        check("definitions", lambda: opens("crds", "customresourcedefinitions(all)", "Gadget"))
        check("nodes", lambda: opens("nodes", "nodes(all)"))
        check("pods", lambda: opens(f"pods {namespace}", f"pods({namespace})"))
        check("config maps again", lambda: opens(f"configmaps {namespace}", "made-meanwhile"))
    finally:
        terminal.tmux("kill-server")
    kubectl(task, "delete", "crd", made["metadata"]["name"])
    terminal = Terminal(
        K9S, "--kubeconfig", task["tenant"], "--all-namespaces", "--command", "pods",
        "--logoless", "--splashless",
    )
    try:
        check("a tenant's pods", lambda: terminal.shows("pods(all)", "pod-mine", "pod-also-mine"))
    finally:
        terminal.tmux("kill-server")


main()
