"""A request to end, by a signal or by another thread.

Always: asking takes no lock, so that a handler of signals may do it wherever the program is.
"""

import time

_LOOK_S = 0.05


class Stop:
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
