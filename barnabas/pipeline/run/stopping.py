"""A stop request, by a signal or by another thread.

Always: a request takes no lock, so a signal handler may make it at any point of the program.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOOK_S = 0.05
_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextmanager
def heeding(end: Callable[[], None]) -> Iterator[None]:
    """`end` is called for each SIGINT, SIGTERM and, without nohup, SIGHUP of a terminal that
    closes.
    """
    before = {
        number: signal.signal(number, lambda *_: end())
        for number in _ENDS
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class StopRequest:
    """The first request stops after the current batch, the second stops at once."""

    def __init__(self) -> None:
        self._times = 0

    def ask(self) -> None:
        self._times += 1

    @property
    def asked(self) -> bool:
        return self._times > 0

    @property
    def at_once(self) -> bool:
        return self._times > 1

    def wait(self, seconds: float) -> bool:
        """Wait that long for a request. Returns whether there was one."""
        deadline = time.monotonic() + seconds
        while not self.asked and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_S))
        return self.asked
