"""Waits for what must become true, with a deadline."""

import time
from collections.abc import Callable

from tests.compat.adapters.client import Refused
from tests.waiting import WAIT_S

PAUSE_S = 0.01


def until(condition: Callable[[], bool], timeout_s: float = WAIT_S) -> None:
    """Ask again and again; a refusal counts as "not yet"."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if condition():
                return
            reason = "it stayed false"
        except Refused as refused:
            reason = f"refused: {refused}"
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s} s: {reason}")
        time.sleep(PAUSE_S)
