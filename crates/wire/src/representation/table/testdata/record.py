#!/usr/bin/env python3
"""Records what kube-apiserver prints: one file per resource in this folder.

usage: record.py https://127.0.0.1:6443 TOKEN

The server should be a fresh one: objects are created in it, see objects.json.
"""
import json
import pathlib
import ssl
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).parent
SERVER, TOKEN = sys.argv[1:]
TLS = ssl._create_unverified_context()
LIST_WATCH = (
    "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    "&allowWatchBookmarks=true&timeoutSeconds=1"
)


def call(method, path, accept="application/json", body=None):
    request = urllib.request.Request(
        SERVER + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {TOKEN}",
            "Accept": accept,
            "User-Agent": "record",
            "Content-Type": "application/json",
        },
    )
    try:
        with urllib.request.urlopen(request, context=TLS) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {path}: {error.code} {error.read().decode()}")


def put_in(path, objects, deleted):
    for wanted in objects:
        status = wanted.pop("status", None)
        made = json.loads(call("POST", path, body=wanted))
        one = f"{path}/{made['metadata']['name']}"
        if status is not None:
            made["status"] = {**made.get("status", {}), **status}
            call("PUT", f"{one}/status", body=made)
        if made["metadata"]["name"] in deleted:
            call("DELETE", one)


def transform(kind, version="v1"):
    return f"application/json;as={kind};g=meta.k8s.io;v={version}"


def record(path):
    """Everything within one second and at one version, so that all agree."""
    while True:
        now = int(time.time())
        listed = call("GET", path)
        items = json.loads(listed)["items"]
        first = items[0]["metadata"]
        single = path
        if "namespace" in first and "/namespaces/" not in path:
            head, resource = path.rsplit("/", 1)
            single = f"{head}/namespaces/{first['namespace']}/{resource}"
        single += f"/{first['name']}"
        page = path + "?limit=2"
        pieces = {
            "list": listed,
            "page": call("GET", page),
            "single": call("GET", single),
            "single_pretty": call("GET", single + "?pretty=true"),
            "table": call("GET", path, transform("Table")),
            "table_v1beta1": call("GET", page, transform("Table", "v1beta1")),
            "table_object": call("GET", page + "&includeObject=Object", transform("Table")),
            "table_none": call("GET", page + "&includeObject=None", transform("Table")),
            "table_single": call("GET", single, transform("Table")),
            "partial": call("GET", page, transform("PartialObjectMetadataList")),
            "partial_single": call("GET", single, transform("PartialObjectMetadata")),
        }
        # The server writes objects of its own: the lists must be of one version.
        lists = [n for n in pieces if n.startswith(("list", "page", "table", "partial"))]
        lists = [n for n in lists if not n.endswith("_single")]
        versions = {json.loads(pieces[n])["metadata"]["resourceVersion"] for n in lists}
        if int(time.time()) == now and len(versions) == 1:
            break
    # Of the first object: an ADDED and a BOOKMARK. Watches take longer than a second: the ages of their start count.
    for name, accept in [
        ("watch", "application/json"),
        ("watch_table", transform("Table")),
        ("watch_partial", transform("PartialObjectMetadata")),
    ]:
        while True:
            started = int(time.time())
            request = urllib.request.Request(
                f"{SERVER}{path}?{LIST_WATCH}&fieldSelector=metadata.name%3D{first['name']}",
                headers={"Authorization": f"Bearer {TOKEN}", "Accept": accept},
            )
            with urllib.request.urlopen(request, context=TLS) as answer:
                frames = []
                for line in answer:
                    frames.append(line.decode())
                    if '"k8s.io/initial-events-end":"true"' in frames[-1]:
                        break
                ended = int(time.time())
            if started == ended:
                break
        pieces[name] = "[" + ",".join(f.rstrip("\n") for f in frames) + "]"
        pieces[f"{name}_now"] = str(started)
    pieces["now"] = str(now)
    return pieces


def main():
    for entry in json.loads((HERE / "objects.json").read_text()):
        put_in(entry["path"], entry["objects"], entry.get("deleted", []))
        # A definition is served a moment later.
        time.sleep(2 if "customresourcedefinitions" in entry["path"] else 0)
    for entry in json.loads((HERE / "objects.json").read_text()):
        if "file" not in entry:
            continue
        pieces = record(entry["list"])
        pieces["resource"] = json.dumps(entry["file"])
        if "columns" in entry:
            pieces["columns"] = json.dumps(entry["columns"])
        body = ",\n".join(f'"{key}": {value.rstrip()}' for key, value in pieces.items())
        (HERE / f"{entry['file']}.json").write_text("{\n" + body + "\n}\n")
        print(entry["file"], len(body))


main()
