# cython: annotation_typing=False, infer_types=False
"""Decides which connection is served next: control before data, and data in time slices.

In: connections that can read or write. Out: their turns.
Always: a control connection waits for at most one slice of data work and one turn, regardless of
how many producers and consumers are busy; no turn begins inside another.
Not here: which requests are control (dispatch.py).

This is plain Python. If a compiler is available, Cython compiles this file with the types in
lanes.pxd; `COMPILED` says which of the two is running.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum
from time import monotonic
from typing import Protocol

COMPILED = not __file__.endswith(".py")

DATA_SLICE_S = 0.004
BRISK_S = 0.000_150
LINGER_S = 0.000_060


class Lane(Enum):
    CONTROL = "control"
    DATA = "data"


_CONTROL = Lane.CONTROL


class LaneTurn(Protocol):
    """A connection that waits in a lane."""

    lane: Lane
    queued: bool
    light: bool  # its last turn moved few bytes, as those of a client that waits for each reply do

    def turn(self) -> None: ...


class Lanes:
    """Control is served at once. So is data until its time slice is used up; then it queues, and
    the loop looks for control connections before the next slice.

    While short and light data turns follow each other quickly, the loop polls for a moment after
    each instead of sleeping: a client that waits for every reply gets it that much sooner
    (docs/adr/0009)."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, now: Callable[[], float] = monotonic
    ) -> None:
        self._loop = loop
        self._now = now
        self._data: deque[LaneTurn] = deque()
        self._draining = False
        self._slice_end = 0.0
        self._turn_ended = 0.0
        self._lingering = False
        self._linger_end = 0.0

    def ready(self, waiting: LaneTurn) -> None:
        """The loop calls this when a stream is ready."""
        if waiting.lane is _CONTROL:
            waiting.turn()
            return
        now = self._now()
        if self._draining or now >= self._slice_end:
            self.again(waiting)
            return
        waiting.turn()
        self._linger(waiting, now)

    def again(self, waiting: LaneTurn) -> None:
        """A turn after all connections that wait now, in any lane."""
        if not waiting.queued:
            waiting.queued = True
            self._data.append(waiting)
            if not self._draining:
                self._draining = True
                self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        data = self._data
        now = self._now()
        self._slice_end = end = now + DATA_SLICE_S
        try:
            while data and now < end:
                began = now
                waiting = data.popleft()
                waiting.queued = False
                waiting.turn()
                now = self._now()
        finally:  # after an error in one turn, the others still get theirs
            if data:
                self._loop.call_soon(self._drain)
            else:
                self._draining = False
        if not data:
            self._linger(waiting, began)

    def _linger(self, waiting: LaneTurn, began: float) -> None:
        """Called after a data turn that began at this time."""
        ended = self._now()
        brisk = began - self._turn_ended < BRISK_S and ended - began < BRISK_S
        self._turn_ended = ended
        if brisk and waiting.light:
            self._linger_end = ended + LINGER_S
            if not self._lingering:
                self._lingering = True
                self._loop.call_soon(self._look_again)

    def _look_again(self) -> None:
        """The loop polls before it calls this again, and does not sleep meanwhile."""
        if self._now() < self._linger_end:
            self._loop.call_soon(self._look_again)
        else:
            self._lingering = False
