"""Waits for what must become true, in real time."""

import time
from collections.abc import Callable

_PAUSE_S = 0.002


def wait_until(
    condition: Callable[[], object], timeout: float, otherwise: str | Callable[[], str]
) -> None:
    """Ask again and again; AssertionError, with what was there instead, when it takes too long."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            said = otherwise if isinstance(otherwise, str) else otherwise()
            raise AssertionError(f"not within {timeout:g} s: {said}")
        time.sleep(_PAUSE_S)
