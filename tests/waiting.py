"""Waits for what must become true, with a deadline that only a broken test comes to."""

import asyncio
import time
from collections.abc import Callable

WAIT_S = 180.0
PROGRAM_S = 2 * WAIT_S  # for a whole program, which waits for things itself
_PAUSE_S = 0.005


def until(
    condition: Callable[[], object],
    say: Callable[[], object] | str = "it stayed false",
    wait_s: float = WAIT_S,
    pause_s: float = _PAUSE_S,
) -> None:
    """Ask again and again; `say` tells what was there instead."""
    deadline = time.monotonic() + wait_s
    while not condition():
        if time.monotonic() > deadline:
            raise _too_late(say, wait_s)
        time.sleep(pause_s)


async def eventually(
    condition: Callable[[], object],
    say: Callable[[], object] | str = "it stayed false",
    wait_s: float = WAIT_S,
) -> None:
    """The same, while the event loop goes on."""
    deadline = time.monotonic() + wait_s
    while not condition():
        if time.monotonic() > deadline:
            raise _too_late(say, wait_s)
        await asyncio.sleep(_PAUSE_S)


def _too_late(say: Callable[[], object] | str, wait_s: float) -> TimeoutError:
    return TimeoutError(f"not within {wait_s} s: {say if isinstance(say, str) else say()}")
