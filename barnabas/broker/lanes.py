"""Decides whose turn it is: control before data, and data in slices of time.

In: connections that can read or write. Out: their turns.
Always: a control connection waits for at most one slice of data work and one turn, however
many producers and consumers are busy; no turn begins inside another.
Not here: which requests are control (dispatch.py).
"""

import asyncio
from collections import deque
from enum import Enum
from typing import Protocol

DATA_SLICE_S = 0.004


class Lane(Enum):
    CONTROL = "control"
    DATA = "data"


class Turn(Protocol):
    """What waits in a lane."""

    lane: Lane
    queued: bool

    def turn(self) -> None: ...


class Lanes:
    """Control takes its turn at once. So does data until its slice of time is used up; then it
    queues, and the loop looks for control connections before the next slice."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._data: deque[Turn] = deque()
        self._draining = False
        self._slice_end = 0.0

    def ready(self, waiting: Turn) -> None:
        """For the loop to call, when a stream is ready."""
        if waiting.lane is Lane.CONTROL or (
            not self._draining and self._loop.time() < self._slice_end
        ):
            waiting.turn()
        else:
            self.again(waiting)

    def again(self, waiting: Turn) -> None:
        """A turn behind everybody who waits now, whatever the lane."""
        if not waiting.queued:
            waiting.queued = True
            self._data.append(waiting)
            if not self._draining:
                self._draining = True
                self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        data = self._data
        time = self._loop.time
        self._slice_end = end = time() + DATA_SLICE_S
        while data:
            waiting = data.popleft()
            waiting.queued = False
            waiting.turn()
            if time() >= end:
                break
        if data:
            self._loop.call_soon(self._drain)
        else:
            self._draining = False
