"""Time, chance and connections of the calling thread, and how it runs a flow."""

import random
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Concatenate, ParamSpec, TypeVar

from barnabas.client.blocking.connection import Connection, connect
from barnabas.config.kinds import Address

P = ParamSpec("P")
R = TypeVar("R")


class _Lock:
    """A thread's lock that looks like asyncio's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> None:
        self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()


class BlockingNet:
    """See client/net.py. Nothing here ever suspends."""

    def now_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def chance(self) -> float:
        return random.random()

    async def sleep(self, ms: int) -> None:
        time.sleep(ms / 1000)  # noqa: ASYNC251 - to block is the point

    def lock(self) -> AbstractAsyncContextManager[object]:
        return _Lock()

    async def connect(self, address: Address, *, client_id: str, timeout_ms: int) -> Connection:
        return connect(address, client_id=client_id, timeout_ms=timeout_ms)


def run(flow: Coroutine[Any, Any, R]) -> R:
    """The result of a flow over `BlockingNet`, which ends without ever suspending."""
    try:
        flow.send(None)
    except StopIteration as done:
        result: R = done.value
        return result
    flow.close()
    raise RuntimeError(f"{flow!r} waits for an event loop: it is not a flow over BlockingNet")


def mirrored(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[Any, P], R]:
    """The blocking method of a class whose `_body` has this one.

    `class Admin: topics = mirrored(admin.Admin.topics)` has the same parameters and result.
    """

    def blocking(self: Any, /, *args: P.args, **options: P.kwargs) -> R:
        return run(method(self._body, *args, **options))

    blocking.__doc__ = method.__doc__
    blocking.__name__ = method.__name__
    return blocking
