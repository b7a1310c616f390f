"""The console of `up --console` and of the demo: a process of its own that ends with its parent."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec

CONSOLE_LINE = "barnabas console on "
_STOP_S_MAX = 5
NEEDED = ("jinja2", "starlette", "uvicorn")


def missing_package() -> str | None:
    return next((name for name in NEEDED if find_spec(name) is None), None)


def start_console(
    servers: str, listen: str, *, stdout: int | None = None, stderr: int | None = None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "barnabas", "console", "-b", servers, "--listen", listen],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
        start_new_session=True,  # Ctrl-C goes to the parent, which then stops it
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - it only calls prctl
    )


def stop_console(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(timeout=_STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def console_with(
    ready: Callable[[str], None], listen: str | None
) -> Iterator[Callable[[str], None]]:
    """`ready` that also starts a console, once, in this process; brokers are forked from it."""
    if listen is None:
        yield ready
        return
    here = os.getpid()
    started: list[subprocess.Popen[str]] = []

    def ready_too(addresses: str) -> None:
        ready(addresses)
        if os.getpid() == here and not started:
            started.append(start_console(addresses, listen))

    try:
        yield ready_too
    finally:
        if os.getpid() == here:
            for process in started:
                stop_console(process)


@contextmanager
def demo_console(servers: str) -> Iterator[str | None]:
    """The address of a console on a free port; None if it cannot be started."""
    if missing_package() is not None:
        yield None
        return
    process = start_console(
        servers, "127.0.0.1:0", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = line.startswith(CONSOLE_LINE)
        yield line.removeprefix(CONSOLE_LINE).strip() if found else None
    finally:
        with suppress(OSError):
            process.stdout.close()
        stop_console(process)


def _end_with_parent() -> None:
    """PR_SET_PDEATHSIG: the kernel sends SIGTERM when the parent ends, even if it was killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, int(signal.SIGTERM))
