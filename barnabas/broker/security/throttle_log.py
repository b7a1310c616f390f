"""Throttled clients: counters, and log lines that say who, by which quota, and what to change.

In: each time that a client must wait. Out: log lines `client throttled`, counters.
Always: one line per client and quota in a minute, with a count of the others; memory is bounded.
"""

from collections.abc import Callable

from barnabas.security.quotas.entities import QuotaEntity
from barnabas.security.quotas.quota_limits import FoundLimit, QuotaKind
from barnabas.system.logs import Logger

REPEAT_MS = 60_000
REMEMBERED_MAX = 1_000
TEXT_LENGTH_MAX = 300


class _Recent:
    __slots__ = ("logged_ms", "repeated", "waited_ms")

    def __init__(self, now_ms: int) -> None:
        self.logged_ms = now_ms
        self.repeated = self.waited_ms = 0


class ThrottleLog:
    """Of one broker, since it first had a quota."""

    def __init__(self, log: Logger, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._recent: dict[tuple[QuotaKind, QuotaEntity], _Recent] = {}
        self.times = dict.fromkeys(QuotaKind, 0)
        """How often a client had to wait, by kind of quota."""
        self.wait_ms = dict.fromkeys(QuotaKind, 0)
        """For how long, in total."""

    def add(
        self,
        kind: QuotaKind,
        limit: FoundLimit,
        principal: str,
        client_id: str,
        host: str,
        wait_ms: int,
    ) -> None:
        self.times[kind] += 1
        self.wait_ms[kind] += wait_ms
        now_ms = self._now_ms()
        key = kind, limit.shared_by
        recent = self._recent.get(key)
        if recent is not None and now_ms - recent.logged_ms < REPEAT_MS:
            recent.repeated += 1
            recent.waited_ms += wait_ms
            return
        values: dict[str, object] = {
            "principal": principal[:TEXT_LENGTH_MAX],
            "client": client_id[:TEXT_LENGTH_MAX],
            "host": host,
            "quota": kind.value,
            "limit": limit.value,
            "of": str(limit.source)[:TEXT_LENGTH_MAX],
            "wait_ms": wait_ms,
            "change_with": change_command(kind, limit.source)[:TEXT_LENGTH_MAX],
        }
        if recent is not None and recent.repeated:
            values["repeated"] = recent.repeated
            values["repeated_wait_ms"] = recent.waited_ms
        self._log.warning("client throttled", **values)
        self._recent.pop(key, None)
        if len(self._recent) >= REMEMBERED_MAX:
            del self._recent[next(iter(self._recent))]
        self._recent[key] = _Recent(now_ms)

    def flush(self) -> None:
        """The broker stops: log the counts so far."""
        for (kind, entity), recent in self._recent.items():
            if recent.repeated:
                self._log.warning(
                    "client throttled",
                    of=str(entity)[:TEXT_LENGTH_MAX],
                    quota=kind.value,
                    repeated=recent.repeated,
                    repeated_wait_ms=recent.waited_ms,
                )
        self._recent.clear()


def change_command(kind: QuotaKind, entity: QuotaEntity) -> str:
    """What to type to change the limit."""
    words = []
    for type_, name in entity.pairs():
        option = {"user": "--user", "client-id": "--client-id", "ip": "--ip"}[type_]
        words.append(f"{option} {name}" if name else f"{option}-default")
    return f"barnabas quota set {' '.join(words)} {kind.value}=NUMBER"
