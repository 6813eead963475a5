"""The operator: it writes into the status of each object how many replicas it has
seen."""

import os

import kopf


@kopf.on.create(os.environ["GROUP"], "v1", "widgets")
@kopf.on.update(os.environ["GROUP"], "v1", "widgets")
def seen(spec, patch, **_):
    patch.status["seen"] = spec["replicas"]
