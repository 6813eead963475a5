"""Expects errors of the library."""

import json

from runner import expect


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
