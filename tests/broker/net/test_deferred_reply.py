"""A reply that is not ready yet."""

import gc
import weakref

from barnabas.broker.net.deferred_reply import DeferredReply


class Waiting:
    """Holds its Later, and is held by it, as a fetch that waits is."""

    def __init__(self) -> None:
        self.deferred: DeferredReply[int] = DeferredReply()
        self.deferred.cancelled = self.leave
        self.got: list[int] = []

    def leave(self) -> None:
        """Nobody waits any more."""


def test_the_value_reaches_each_waiter_once() -> None:
    deferred: DeferredReply[int] = DeferredReply()
    got: list[int] = []
    deferred.then(got.append)
    deferred.set(1)
    deferred.set(2)
    assert got == [1]


def test_a_value_that_came_first_waits_for_its_reader() -> None:
    deferred: DeferredReply[int] = DeferredReply()
    deferred.set(1)
    got: list[int] = []
    deferred.then(got.append)
    assert got == [1]


def test_nothing_stays_in_memory_behind_an_answer() -> None:
    """Circles would: the broker lets the garbage collector rest."""
    gc.disable()
    try:
        waiting = Waiting()
        deferred = waiting.deferred
        deferred.then(lambda value, deferred=deferred, waiting=waiting: waiting.got.append(value))  # type: ignore[misc]
        deferred.set(1)
        assert waiting.got == [1]
        gone = weakref.ref(waiting)
        del waiting, deferred
        assert gone() is None
    finally:
        gc.enable()
