"""The scenario with the official Python client."""

import importlib.metadata

from kubernetes import client, config

import objects
import informers
import runner


def main():
    task = runner.hear()
    runner.say(version=importlib.metadata.version("kubernetes"))
    config.load_kube_config(config_file=task["kubeconfig"])
    objects.make_checks(client.ApiClient(), task)
    informers.follow(client.CoreV1Api(), task)


main()
