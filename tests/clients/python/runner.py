"""The lines of JSON that this program and the runner say to each other."""

import json
import sys
import traceback


def say(**line):
    print(json.dumps(line), flush=True)


def hear():
    return json.loads(sys.stdin.readline())


def check(name, action):
    """Makes a check: it fails if the action raises anything."""
    try:
        action()
    except Exception as error:
        traceback.print_exc()
        say(check=name, ok=False, detail=repr(error))
    else:
        say(check=name, ok=True)


def expect(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r} is not {expected!r}")


def refused(action, status, reason):
    """Expects the library's error with this code and reason."""
    from kubernetes.client.exceptions import ApiException

    try:
        action()
    except ApiException as error:
        expect(error.status, status)
        # An error of a watch has no body.
        if error.body:
            expect(json.loads(error.body)["reason"], reason)
        return error
    raise AssertionError(f"no error {status}")
