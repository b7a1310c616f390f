"""Forks `barnabas` commands from a process that has imported their code.

Each command is a process of its own with its own standard streams, as a shell would start it, but
without the 0.1 s that imports take. What a command imports is tested elsewhere, in real starts.

In: five descriptors per command, sent over a socket: a file with arguments and environment, the
three standard streams, and a pipe. Out: the process id and the exit status, on the pipe.
"""

import gc
import json
import os
import signal
import socket
import struct
import sys
from importlib import import_module

import click

from barnabas.cli.app import root

ANSWER = struct.Struct("=i")
DESCRIPTORS = 5
CLIENT = (
    *(f"barnabas.client.blocking.{name}" for name in ("admin", "partition_consumer", "producer")),
    "barnabas.client.admin.security",
    "barnabas.client.groups.report",
    "barnabas.client.workers.dead_letters",
)


def serve(requests: socket.socket) -> None:
    context = click.Context(root)
    for name in root.list_commands(context):
        root.get_command(context, name)
    for module in CLIENT:
        import_module(module)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the waiting processes end by themselves
    while descriptors := _receive(requests):
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _wait_for_command(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _receive(requests: socket.socket) -> list[int]:
    _, descriptors, _, _ = socket.recv_fds(requests, 1, DESCRIPTORS)
    return descriptors


def _wait_for_command(request: int, stdin: int, stdout: int, stderr: int, answer: int) -> None:
    command = os.fork()
    if command == 0:
        os.close(answer)
        return _run(request, stdin, stdout, stderr)
    for descriptor in (request, stdin, stdout, stderr):
        os.close(descriptor)
    os.write(answer, ANSWER.pack(command))
    _, status = os.waitpid(command, 0)
    os.write(answer, ANSWER.pack(status))
    os._exit(0)


def _run(request: int, *streams: int) -> None:
    """Never returns: the interpreter ends as after any command."""
    with open(request, "rb") as file:
        asked = json.load(file)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(asked["directory"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.path[0] = asked["directory"]  # as `python -m` has it
    sys.argv = ["barnabas", *asked["arguments"]]
    from barnabas.cli import main

    main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
