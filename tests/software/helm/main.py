"""helm installs a chart with a definition of its own and an object of that kind,
upgrades it, fails to upgrade it, rolls it back and uninstalls it."""

import json
import pathlib
import sys

from runner import check, say
from tasks import begin, custom, definition, run, version

HELM = sys.argv[1]
KIND = "Widget"


def write(path, thing):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(thing if isinstance(thing, str) else json.dumps(thing))


def chart(group):
    """Writes a chart, and returns its folder. JSON is YAML, too."""
    folder = pathlib.Path(group)
    write(folder / "Chart.yaml", {"apiVersion": "v2", "name": "demo", "version": "1.0.0"})
    write(folder / "values.yaml", {"replicas": 1})
    write(folder / "crds/widget.yaml", definition(group, KIND))
    widget = json.dumps(custom(group, KIND, "demo", "REPLICAS"))
    write(folder / "templates/widget.yaml", widget.replace('"REPLICAS"', "{{ .Values.replicas }}"))
    hook = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "hook", "annotations": {"helm.sh/hook": "pre-install,pre-upgrade"}},
        "data": {"of": "the chart"},
    }
    write(folder / "templates/hook.yaml", hook)
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    write(folder / "templates/settings.yaml", settings)
    return str(folder)


def main():
    task = begin()
    say(version=version())
    namespace = ["--namespace", task["namespace"]]
    for round in range(1, task["rounds"] + 1):
        folder = chart(f"{task['namespace']}-{round}.example.com")
        name = f"demo-{round}"

        def helm(*arguments, fails=False):
            return lambda: run(HELM, *arguments, *namespace, fails=fails)

        check(f"install {round}", helm("install", name, folder))
        check(f"upgrade {round}", helm("upgrade", name, folder, "--set", "replicas=2"))
        wrong = helm("upgrade", name, folder, "--set-string", "replicas=many", fails=True)
        check(f"failed upgrade {round}", wrong)
        check(f"rollback {round}", helm("rollback", name, "1"))

        def is_first():
            manifest = helm("get", "manifest", name)()
            history = json.loads(helm("history", name, "--output", "json")())
            assert '"replicas": 1' in manifest or "replicas: 1" in manifest, manifest
            states = [revision["status"] for revision in history]
            assert states == ["superseded", "superseded", "failed", "deployed"], states

        check(f"state {round}", is_first)
        check(f"uninstall {round}", helm("uninstall", name))


main()
