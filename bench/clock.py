"""Wall and CPU time of this process."""

import os
import time
from typing import Any


class Clock:
    """The time since this object was created."""

    def __init__(self) -> None:
        self._wall = time.perf_counter()
        self._cpu = sum(os.times()[:2])

    def result(self) -> dict[str, Any]:
        return {
            "seconds": time.perf_counter() - self._wall,
            "cpu_s": sum(os.times()[:2]) - self._cpu,
        }
