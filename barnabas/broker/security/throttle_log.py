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


class RecentThrottling:
    """Of the clients that share one limit. `times` and `wait_ms`: of the last minute or two;
    `repeated`, `repeated_ms`: what is not in the log yet."""

    __slots__ = (
        "kind", "last_ms", "limit", "logged_ms", "repeated", "repeated_ms", "times", "wait_ms",
    )  # fmt: skip

    def __init__(self, kind: QuotaKind, limit: FoundLimit, wait_ms: int, now_ms: int) -> None:
        self.kind = kind
        self.limit = limit
        self.logged_ms = self.last_ms = now_ms
        self.times = 1
        self.wait_ms = wait_ms
        self.repeated = self.repeated_ms = 0


class ThrottleLog:
    """Of one broker, since it first had a quota."""

    def __init__(self, log: Logger, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._recent: dict[tuple[QuotaKind, QuotaEntity], RecentThrottling] = {}
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
            recent.repeated_ms += wait_ms
            recent.times += 1
            recent.wait_ms += wait_ms
            recent.limit, recent.last_ms = limit, now_ms
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
            values["repeated_wait_ms"] = recent.repeated_ms
        self._log.warning("client throttled", **values)
        self._recent.pop(key, None)
        if len(self._recent) >= REMEMBERED_MAX:
            del self._recent[next(iter(self._recent))]
        self._recent[key] = RecentThrottling(kind, limit, wait_ms, now_ms)

    def lately(self) -> list[RecentThrottling]:
        """Those that were over their quota in the last minute, the latest first."""
        since_ms = self._now_ms() - REPEAT_MS
        found = [each for each in self._recent.values() if each.last_ms >= since_ms]
        return sorted(found, key=lambda each: each.last_ms, reverse=True)

    def flush(self) -> None:
        """The broker stops: log the counts so far."""
        for (kind, entity), recent in self._recent.items():
            if recent.repeated:
                self._log.warning(
                    "client throttled",
                    of=str(entity)[:TEXT_LENGTH_MAX],
                    quota=kind.value,
                    repeated=recent.repeated,
                    repeated_wait_ms=recent.repeated_ms,
                )
        self._recent.clear()


def change_command(kind: QuotaKind, entity: QuotaEntity) -> str:
    """What to type to change the limit."""
    words = []
    for type_, name in entity.pairs():
        option = {"user": "--user", "client-id": "--client-id", "ip": "--ip"}[type_]
        words.append(f"{option} {name}" if name else f"{option}-default")
    return f"barnabas quota set {' '.join(words)} {kind.value}=NUMBER"
