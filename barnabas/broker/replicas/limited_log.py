"""Logs one line for each of the first partitions of a request, and one line for the rest.

Thousands of lines would hide everything else.
"""

from collections.abc import Callable

from barnabas.system.logs import Logger

LINES_MAX = 20  # per request and event


class LimitedLog:
    """The lines of one request at a time."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._counts: dict[str, int] = {}

    def write(self, log: Callable[..., None], event: str, **values: object) -> None:
        """By `log` (a level's method of the logger), or at debug level after LINES_MAX lines."""
        self._counts[event] = self._counts.get(event, 0) + 1
        (log if self._counts[event] <= LINES_MAX else self._log.debug)(event, **values)

    def finish(self, event: str) -> None:
        """The request is done: log the counts if lines were left out."""
        if any(count > LINES_MAX for count in self._counts.values()):
            self._log.info(event, **self._counts)
        self._counts.clear()
