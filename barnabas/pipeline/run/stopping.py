"""A request to end, by a signal or by another thread.

Always: asking takes no lock, so that a handler of signals may do it wherever the program is.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_LOOK_S = 0.05
_ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@contextmanager
def heeding(end: Callable[[], None]) -> Iterator[None]:
    """`end` is called for each signal that asks for an end; a terminal that goes away does, unless
    nohup says otherwise."""
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
    """Asked for once: when what is under way has been done. Twice: at once."""

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
        """Whether it was asked for within that time."""
        deadline = time.monotonic() + seconds
        while not self.asked and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_S))
        return self.asked
