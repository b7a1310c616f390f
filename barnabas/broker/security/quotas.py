"""The quotas of one broker: the limits in force, what clients have used, and who must wait.

In: settings of entities when they change, what requests use. Out: waiting times; connections that
are not read while their client waits (KIP-219); counters and log lines.
Always: nothing of this exists on a broker without quotas; what is remembered of clients is bounded.
Not here: which request uses what (limited_requests.py), the decision and the numbers
(security/quotas/).
"""

from typing import TYPE_CHECKING

from barnabas.broker.security.limited_requests import EXEMPT, Decode, Handle, LimitedRequests
from barnabas.broker.security.mutation_quota import STRICT_SINCE, limited_mutations
from barnabas.broker.security.throttle_log import ThrottleLog
from barnabas.keeper.paths import QUOTA_KINDS
from barnabas.security.acl.hosts import host_text
from barnabas.security.quotas.entities import QuotaEntity, entity_stored_at
from barnabas.security.quotas.quota_limits import (
    INT_MAX,
    FoundLimit,
    QuotaKind,
    QuotaLimits,
    read_limits,
)
from barnabas.security.quotas.usage import QuotaWindows, UsageBucket, UsageRate

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from barnabas.broker.broker import Broker
    from barnabas.broker.net.connection import Connection
    from barnabas.broker.net.dispatch import Call

REMEMBERED_MAX = 10_000  # clients with a limit whose usage is known
LOOKED_UP_MAX = 10_000  # clients whose limits are known

Key = tuple[QuotaKind, QuotaEntity]


class ClientUsage:
    """What the connections that share one limit have used."""

    __slots__ = ("bucket", "limit", "rate")

    def __init__(self, limit: FoundLimit, windows: QuotaWindows) -> None:
        self.limit = limit
        self.rate = UsageRate(windows)
        self.bucket = UsageBucket(windows)


class ClientQuotas:
    """Of a broker that has at least one limit."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._loop = broker.loop
        self.now_ms = broker.clock.monotonic_ms
        config = broker.config
        self.windows = QuotaWindows(
            config.quota_window_num, config.quota_window_size_seconds * 1000
        )
        self.mutation_windows = QuotaWindows(
            config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000
        )
        self.limits = QuotaLimits()
        self.log = ThrottleLog(broker.log, self.now_ms)
        self._usage: dict[Key, ClientUsage] = {}  # the least recently created first
        self._found: dict[tuple[QuotaKind, str, str], ClientUsage | None] = {}
        self._stopped = False
        self._muted: dict[Connection, dict[asyncio.TimerHandle, None]] = {}

    # Handlers

    def limited(self, key: int, decode: Decode, handle: Handle) -> tuple[Decode, Handle]:
        """The decoder and the handler of an API, which count what requests use."""
        if key in EXEMPT:
            return decode, handle
        limited = LimitedRequests(self, key, decode, handle)
        return limited.decode, limited.handle

    def limited_mutations(self, key: int, handle: Handle) -> Handle:
        return limited_mutations(self, key, handle) if key in STRICT_SINCE else handle

    # Limits

    def configured(self, kind: str, name: str) -> None:
        """The settings of an entity may have changed."""
        entity = entity_stored_at(kind, name) if kind in QUOTA_KINDS else None
        if entity is None:
            return
        limits, problems = read_limits(self._broker.catalog.entities.get((kind, name), {}))
        for problem in problems:
            self._broker.log.error(
                "quota cannot be read: set or delete it", entity=str(entity), reason=problem
            )
        if self.limits.replace(entity, limits):
            self._found.clear()  # what was used stays: a new limit holds for it too

    def usage(self, kind: QuotaKind, user: str, client_id: str) -> ClientUsage | None:
        """None: no limit of this kind for this client."""
        try:
            return self._found[kind, user, client_id]
        except KeyError:
            limit = self.limits.find(kind, user, client_id)
            found = None if limit is None else self._shared(kind, limit)
            if len(self._found) >= LOOKED_UP_MAX:
                self._found.clear()
            self._found[kind, user, client_id] = found
            return found

    def _shared(self, kind: QuotaKind, limit: FoundLimit) -> ClientUsage:
        key = kind, limit.shared_by
        found = self._usage.get(key)
        if found is None:
            if len(self._usage) >= REMEMBERED_MAX:
                self._forget_idle()
            windows = self.mutation_windows if kind is QuotaKind.MUTATION else self.windows
            found = self._usage[key] = ClientUsage(limit, windows)
        found.limit = limit
        return found

    def _forget_idle(self) -> None:
        """All that have used nothing lately; if they are few, the oldest: a flood of client ids
        must not make this a long search each time."""
        now_ms = self.now_ms()
        for key, usage in list(self._usage.items()):
            if (
                not usage.rate.total(now_ms)
                and usage.bucket.wait_ms(usage.limit.value, now_ms) == 0
            ):
                del self._usage[key]
        for key in list(self._usage)[: len(self._usage) - REMEMBERED_MAX * 9 // 10]:
            del self._usage[key]
        self._found.clear()

    # Usage

    def used(self, kind: QuotaKind, call: "Call", amount: float) -> int:
        """Count it; for how many milliseconds the client must wait then."""
        usage = self.usage(kind, call.connection.principal.name, call.client_id)
        if usage is None:
            return 0
        now_ms = self.now_ms()
        usage.rate.record(amount, now_ms)
        wait_ms = min(usage.rate.wait_ms(usage.limit.value, now_ms), INT_MAX)
        if wait_ms > 0 and kind is QuotaKind.REQUEST:
            wait_ms = min(wait_ms, self.windows.window_ms)
        if wait_ms > 0:
            self.throttled(kind, usage.limit, call, wait_ms)
        return wait_ms

    def throttled(self, kind: QuotaKind, limit: FoundLimit, call: "Call", wait_ms: int) -> None:
        connection = call.connection
        self.log.add(
            kind, limit, str(connection.principal), call.client_id, connection.host, wait_ms
        )

    def address_limit(self, host: str) -> tuple[FoundLimit, UsageRate] | None:
        """The limit of new connections from this address, and those that it has created."""
        limit = self.limits.find_address(host_text(host))
        return None if limit is None else (limit, self._shared(QuotaKind.CONNECTION, limit).rate)

    # Connections that wait

    @property
    def muted(self) -> int:
        return len(self._muted)

    def mute(self, connection: "Connection", wait_ms: int) -> None:
        """Read nothing from the connection for this time. Its replies are sent."""
        if not connection.open or self._stopped:
            return
        connection.hold()
        timers = self._muted.setdefault(connection, {})

        def over() -> None:
            del timers[timer]
            if not timers:
                self._muted.pop(connection, None)
            connection.resume()

        timer = self._loop.call_later(wait_ms / 1000, over)
        timers[timer] = None

    def closed(self, connection: "Connection") -> None:
        """A timer would keep a closed connection in memory for as long as it had to wait."""
        for timer in self._muted.pop(connection, ()):
            timer.cancel()

    def families(self) -> "Iterator[Metric]":
        """For the page of metrics."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        times = CounterMetricFamily(
            "barnabas_throttled_requests", "Requests over a quota.", labels=["quota"]
        )
        waited = CounterMetricFamily(
            "barnabas_throttled_ms",
            "Milliseconds that clients had to wait.",
            labels=["quota"],
        )
        for kind in QuotaKind:
            times.add_metric([kind.value], self.log.times[kind])
            waited.add_metric([kind.value], self.log.wait_ms[kind])
        muted = "Connections that are not read because their client is over a quota."
        yield from (
            times,
            waited,
            GaugeMetricFamily("barnabas_throttled_connections", muted, self.muted),
        )

    def stop(self) -> None:
        """There are no more limits, or the broker stops: no client waits any longer."""
        self._stopped = True
        for connection in list(self._muted):
            for timer in self._muted.pop(connection):
                timer.cancel()
                connection.resume()
        self.log.flush()
