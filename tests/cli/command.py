"""Runs the real command, as a shell would."""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from threading import Thread
from typing import BinaryIO, NamedTuple

from tests.cli.command_server import ANSWER
from tests.support.cache import ROOT
from tests.waiting import WAIT_S


class Ended(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def barnabas(*arguments: str, stdin: str | bytes = "", servers: str | None = None) -> Ended:
    """The command to its end. `servers` goes into the environment."""
    environment = {name: value for name, value in os.environ.items() if "BARNABAS" not in name}
    if servers is not None:
        environment["BARNABAS_BOOTSTRAP_SERVERS"] = servers
    data = stdin.encode() if isinstance(stdin, str) else stdin
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = _run(arguments, environment, data, out, err)
        out.seek(0)
        err.seek(0)
        said = err.read().decode()
        assert "Traceback" not in said, said
        return Ended(code, out.read().decode(errors="surrogateescape"), said)


def _run(
    arguments: tuple[str, ...],
    environment: dict[str, str],
    stdin: bytes,
    out: BinaryIO,
    err: BinaryIO,
) -> int:
    asked = {"arguments": arguments, "environment": environment, "directory": os.getcwd()}
    reader, writer = os.pipe()
    answers, answer = os.pipe()
    with tempfile.TemporaryFile() as request, open(answers, "rb", buffering=0) as answered:
        request.write(json.dumps(asked).encode())
        request.seek(0)
        given = [request.fileno(), reader, out.fileno(), err.fileno(), answer]
        socket.send_fds(_server(), [b"x"], given)
        os.close(reader)
        os.close(answer)
        feeding = Thread(target=_feed, args=(writer, stdin))
        feeding.start()
        try:
            return os.waitstatus_to_exitcode(_status(answered, arguments))
        finally:
            feeding.join()


def _status(answers: BinaryIO, arguments: tuple[str, ...]) -> int:
    (pid,) = ANSWER.unpack(answers.read(ANSWER.size))
    if not select.select([answers], [], [], WAIT_S)[0]:
        os.kill(pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired(arguments, WAIT_S)
    (status,) = ANSWER.unpack(answers.read(ANSWER.size))
    return int(status)


def _feed(descriptor: int, data: bytes) -> None:
    with open(descriptor, "wb", buffering=0) as pipe:
        try:
            while data:
                data = data[pipe.write(data) :]
        except BrokenPipeError:
            pass  # a command need not read all


@cache
def _server() -> socket.socket:
    """One for all commands of this process; it ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    number = theirs.fileno()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cli.command_server", str(number)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
        pass_fds=[number],
    )
    theirs.close()

    def stop() -> None:
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours
