"""The scenario with kubectl. Its path is the argument."""

import sys

import checks
import watch
from commands import Kubectl
from runner import hear, say


def main():
    task = hear()
    kubectl = Kubectl(sys.argv[1], task["kubeconfig"])
    say(version=kubectl.version())
    checks.make(kubectl, task)
    watch.follow(kubectl, task["changes"])


main()
