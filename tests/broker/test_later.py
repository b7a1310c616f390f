"""A reply that is not ready yet."""

import gc
import weakref

from barnabas.broker.later import Later


class Waiting:
    """Holds its Later, and is held by it, as a fetch that waits is."""

    def __init__(self) -> None:
        self.later: Later[int] = Later()
        self.later.cancelled = self.leave
        self.got: list[int] = []

    def leave(self) -> None:
        """Nobody waits any more."""


def test_the_value_reaches_whoever_waits_once() -> None:
    later: Later[int] = Later()
    got: list[int] = []
    later.then(got.append)
    later.set(1)
    later.set(2)
    assert got == [1]


def test_a_value_that_came_first_waits_for_its_reader() -> None:
    later: Later[int] = Later()
    later.set(1)
    got: list[int] = []
    later.then(got.append)
    assert got == [1]


def test_nothing_stays_in_memory_behind_an_answer() -> None:
    """Circles would: the broker lets the garbage collector rest."""
    gc.disable()
    try:
        waiting = Waiting()
        later = waiting.later
        later.then(lambda value, later=later, waiting=waiting: waiting.got.append(value))  # type: ignore[misc]
        later.set(1)
        assert waiting.got == [1]
        gone = weakref.ref(waiting)
        del waiting, later
        assert gone() is None
    finally:
        gc.enable()
