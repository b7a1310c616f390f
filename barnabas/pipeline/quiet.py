"""Keeps off the terminal what the JVM says of itself, Java's stacks, and traces of Python workers.

An error reaches the user through the driver, once. `BARNABAS_LOG_LEVEL=debug` lets all of it by.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

_TRACE = b"Traceback (most recent call last):"
_NOISE = (b"WARNING: Using incubator modules", b"\tat ", b"\t... ")


@contextmanager
def quietly() -> Iterator[None]:
    """What is started meanwhile has its standard error read here, line by line, to its end."""
    if os.environ.get("BARNABAS_LOG_LEVEL", "").lower() == "debug":
        yield
        return
    outside = os.dup(2)
    inside, through = os.pipe()
    Thread(target=_forward, args=(inside, os.dup(2)), daemon=True).start()
    os.dup2(through, 2)
    os.close(through)
    try:
        yield
    finally:
        os.dup2(outside, 2)
        os.close(outside)


def _forward(inside: int, outside: int) -> None:
    traced = False
    with open(inside, "rb") as lines, open(outside, "wb", buffering=0) as out:
        for line in lines:
            if traced:
                traced = line.startswith(b" ")  # the last line of a trace names the error
            elif line.startswith(_TRACE):
                traced = True
            elif not line.startswith(_NOISE):
                try:
                    out.write(line)
                except OSError:
                    return  # nobody reads it any more
