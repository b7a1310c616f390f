"""Threads for blocking handlers.

Unlike the threads of a ThreadPoolExecutor, they do not keep a process from ending: a call that does
not end within the drain time is interrupted as in a crash, and its record is handled again.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class Pool(Generic[T]):
    """A pool with one thread per running call, up to `size`."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[tuple[Callable[[], T], asyncio.Future[T]] | None]
        self._calls = SimpleQueue()
        self._threads = 0
        self._busy = 0
        self._abandoned: set[asyncio.Future[T]] = set()  # their calls still run

    def submit(self, call: Callable[[], T]) -> "asyncio.Future[T]":
        """Called on the loop's thread. The future cannot be cancelled: a thread runs to its end."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._busy += 1
        if self._busy > self._threads and self._threads < self._size:
            self._threads += 1
            name = f"barnabas-worker-{self._threads}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        self._calls.put((call, future))
        return future

    def abandon(self, future: "asyncio.Future[T]") -> bool:
        """Cancel the future of a call that hangs, and use another thread in its place.

        The thread ends with its call. False: as many calls hang as there may be threads; then it
        is waited for.
        """
        if future.done() or len(self._abandoned) >= self._size:
            return False
        self._abandoned.add(future)
        self._threads -= 1
        self._busy -= 1
        future.cancel()
        return True

    def close(self) -> None:
        for _ in range(self._threads):
            self._calls.put(None)

    def _work(self) -> None:
        while (todo := self._calls.get()) is not None:
            call, future = todo
            result: T | None = None
            problem: BaseException | None = None
            try:
                result = call()
            except StopIteration as stray:  # a future does not take one
                problem = RuntimeError(f"the handler raised {stray!r}")
            except BaseException as any_:
                problem = any_
            try:
                self._loop.call_soon_threadsafe(self._settle, future, result, problem)
            except RuntimeError:
                return  # the loop is closed: nothing waits for the result
            if future in self._abandoned:
                return  # another thread has taken its place

    def _settle(
        self, future: "asyncio.Future[T]", result: T | None, problem: BaseException | None
    ) -> None:
        if future in self._abandoned:
            self._abandoned.discard(future)
            return
        self._busy -= 1
        if future.done():
            return
        if problem is None:
            future.set_result(cast("T", result))
        else:
            future.set_exception(problem)
