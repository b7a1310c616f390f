"""A reply that is not ready yet."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Later(Generic[T]):
    """Set once, by whoever finishes the work; then told to the one who waits."""

    __slots__ = ("_then", "_value", "cancelled", "done")

    def __init__(self) -> None:
        self.done = False
        self.cancelled: Callable[[], None] | None = None  # called when nobody waits any more
        self._value: T | None = None
        self._then: Callable[[T], None] | None = None

    def set(self, value: T) -> None:
        if self.done:
            return
        self.done = True
        if self._then is None:
            self._value = value
        else:
            self._then(value)

    def then(self, callback: Callable[[T], None]) -> None:
        if self.done:
            callback(self._value)  # type: ignore[arg-type]
        else:
            self._then = callback
