"""A reply that is not ready yet."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class DeferredReply(Generic[T]):
    """Set once, when the work is finished; then passed to the callback that waits."""

    __slots__ = ("_then", "_value", "cancelled", "done")

    def __init__(self) -> None:
        self.done = False
        # Called when the reply is no longer needed.
        self.cancelled: Callable[[], None] | None = None
        self._value: T | None = None
        self._then: Callable[[T], None] | None = None

    def set(self, value: T) -> None:
        if self.done:
            return
        self.done = True
        # Both refer back to this object: drop them, or every reply that waited stays in memory
        # until the garbage collector finds the cycle.
        then, self._then, self.cancelled = self._then, None, None
        if then is None:
            self._value = value
        else:
            then(value)

    def take(self) -> T:
        """The value, once it is set: for a caller that does not need to wait."""
        assert self.done
        value, self._value = self._value, None
        return value  # type: ignore[return-value]

    def abandon(self) -> None:
        """The reply is no longer needed."""
        cancelled, self._then, self.cancelled = self.cancelled, None, None
        if cancelled is not None:
            cancelled()

    def then(self, callback: Callable[[T], None]) -> None:
        if self.done:
            callback(self.take())
        else:
            self._then = callback


async def settled(reply: T | DeferredReply[T]) -> T:
    """The value, now or when it is there."""
    if not isinstance(reply, DeferredReply):
        return reply
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    reply.then(lambda value: None if future.done() else future.set_result(value))
    return await future
