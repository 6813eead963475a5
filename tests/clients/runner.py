"""The lines of JSON that a program and the runner say to each other."""

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
