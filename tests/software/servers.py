"""Servers that a program needs beside it."""

import socket
import subprocess
import sys


def free():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """A process that must run until it is stopped."""

    def __init__(self, *command, environment=None):
        self.command = command
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ended = self.process.poll()
        self.process.terminate()
        self.process.wait(30)
        assert ended is None, f"{self.command[0]} has ended by itself: {ended}"
