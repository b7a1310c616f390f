"""Keeps off the terminal what the JVM says of itself, Java's stacks, and traces of Python workers.

An error reaches the user through the driver, once. `BARNABAS_LOG_LEVEL=debug` lets all of it by.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

_TRACE = b"Traceback (most recent call last):"
_NOISE = (
    b"WARNING: Using incubator modules",
    b"Using Spark's default log4j profile",
    b"\tat ",
    b"\t... ",
    b"\n",
    b"During handling of the above exception",
    b"The above exception was the direct cause",
)


def is_loud() -> bool:
    """Whether the user wants to see all of it."""
    return os.environ.get("BARNABAS_LOG_LEVEL", "").lower() == "debug"


@contextmanager
def quietly() -> Iterator[None]:
    """What is started meanwhile has its standard error read here, line by line, to its end."""
    if is_loud():
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
    noise = JvmNoise()
    with open(inside, "rb") as lines, open(outside, "wb", buffering=0) as out:
        for line in lines:
            if not noise.is_in(line):
                try:
                    out.write(line)
                except OSError:
                    return  # nobody reads it any more


class JvmNoise:
    """Tells it from what a user wants to see, line by line."""

    def __init__(self) -> None:
        self._traces = 0  # that have begun and not ended: several workers may write theirs at once

    def is_in(self, line: bytes) -> bool:
        if line.startswith(_TRACE):
            self._traces += 1
        elif self._traces:
            self._traces -= not line.startswith(b" ")  # the last line of a trace names the error
        else:
            return line.startswith(_NOISE)
        return True
