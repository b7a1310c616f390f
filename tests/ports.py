"""Ports for processes that listen some time after the port was chosen, or again after they died.

Always: below those that the kernel gives to outgoing connections, or a client that calls a dead
broker could be given that very port, and even reach itself. Each test worker takes them from a
part of its own, one after the other, so that two workers never choose the same.
"""

import itertools
import os
import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack

_FIRST = 20_000
_PARTS = 10
_PART = 1_000


def _own_part() -> Iterator[int]:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = _FIRST + worker % _PARTS * _PART
    begin = random.Random(os.getpid()).randrange(_PART)  # other runs may be on this machine
    places = (*range(begin, _PART), *range(begin))
    return itertools.cycle(first + place for place in places)


_ports = _own_part()


def free_ports_from(count: int) -> int:
    """The first of so many ports in a row that nobody has."""
    while True:
        ports = list(itertools.islice(_ports, count))
        if ports != list(range(ports[0], ports[0] + count)):
            continue  # the part has come round
        with ExitStack() as held:
            try:
                for port in ports:
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return ports[0]


def free_ports(count: int) -> list[int]:
    first = free_ports_from(count)
    return list(range(first, first + count))
