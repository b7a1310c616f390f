"""Logs refused requests: a repeated refusal is one line per client and minute, with a count.

In: refusals as they happen. Out: log lines.
Always: the first refusal of a kind is logged at once; memory is bounded.
Not here: the replies to the clients (handlers/).
"""

import asyncio
from typing import Any, NamedTuple

from barnabas.model.errors import KafkaError
from barnabas.system.logs import Logger

REPEAT_S = 60.0
KINDS_MAX = 1_000  # remembered at a time


class _Kind(NamedTuple):
    """Two refusals with the same fields are the same. The reason is not a field: it may name a
    time.

    `errno`: of the system error that caused it. A full disk is not a lack of descriptors."""

    event: str
    host: str
    client: str
    code: int
    errno: int
    values: tuple[tuple[str, object], ...]


class _Repeats:
    __slots__ = ("count", "line", "timer")

    def __init__(self, line: dict[str, Any], timer: asyncio.TimerHandle) -> None:
        self.line = line  # the latest one
        self.timer = timer
        self.count = 0


class RefusedRequests:
    """The refused requests of one broker."""

    def __init__(self, log: Logger, loop: asyncio.AbstractEventLoop) -> None:
        self._log = log
        self._loop = loop
        self._recent: dict[_Kind, _Repeats] = {}

    def add(
        self,
        event: str,
        peer: str,
        client: str,
        error: KafkaError,
        values: dict[str, object],
    ) -> None:
        line = {
            "peer": peer, "client": client, **values,
            "code": error.code.name, "reason": error.detail,
        }  # fmt: skip
        host = peer.rpartition(":")[0]
        errno = getattr(error.__cause__, "errno", None) or 0
        kind = _Kind(event, host, client, error.code, errno, tuple(values.items()))
        repeats = self._recent.get(kind)
        if repeats is not None:
            repeats.line = line
            repeats.count += 1
            return
        self._log.warning(event, **line)
        if len(self._recent) >= KINDS_MAX:
            self._end(next(iter(self._recent)))
        self._recent[kind] = _Repeats(line, self._loop.call_later(REPEAT_S, self._due, kind))

    def flush(self) -> None:
        """The broker stops: log the counts so far."""
        for kind in tuple(self._recent):
            self._end(kind)

    def _due(self, kind: _Kind) -> None:
        repeats = self._recent[kind]
        if not repeats.count:
            del self._recent[kind]
            return
        self._log_repeats(kind, repeats)
        repeats.count = 0
        repeats.timer = self._loop.call_later(REPEAT_S, self._due, kind)

    def _end(self, kind: _Kind) -> None:
        repeats = self._recent.pop(kind)
        repeats.timer.cancel()
        if repeats.count:
            self._log_repeats(kind, repeats)

    def _log_repeats(self, kind: _Kind, repeats: _Repeats) -> None:
        self._log.warning(kind.event, **repeats.line, repeated=repeats.count)
