"""How many connections are created in a second: on the broker, on a listener, from an address.

In: accepted streams. Out: the same, now or later; or none, for an address over its quota.
Always: over `max.connection.creation.rate` the listener accepts nothing until the rate is within
the limit again; of an address over its quota, the connection is closed after the wait, so that its
client does not try again at once. What is held is bounded.
Not here: how many connections there may be (net/listeners.py).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.net.listener_context import host_of
from barnabas.config.kinds import INT_MAX
from barnabas.model.ports import Stream
from barnabas.security.quotas.quota_limits import QuotaKind
from barnabas.security.quotas.usage import QuotaWindows, UsageRate

if TYPE_CHECKING:
    import asyncio

    from barnabas.broker.broker import Broker
    from barnabas.broker.net.listeners import ListenerRate

HELD_MAX = 1_000  # connections of addresses over their quota that wait to be closed
NEAR = ":near"  # a broker of this machine

Accept = Callable[[Stream], None]


class ConnectionRates:
    """Created with the first connection under a limit."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        config = broker.config
        self._windows = QuotaWindows(
            config.quota_window_num, config.quota_window_size_seconds * 1000
        )
        self._rate = UsageRate(self._windows)
        self._waiting: dict[asyncio.TimerHandle, Stream] = {}

    def accepted(self, listener: "ListenerRate", stream: Stream, accept: Accept) -> None:
        if stream.peer.endswith(NEAR):
            accept(stream)
            return
        now_ms = self._broker.clock.monotonic_ms()
        counted = []
        wait_ms = 0
        if listener.rate is None:
            listener.rate = UsageRate(self._windows)
        if listener.is_counted:
            counted.append((self._rate, self._broker.config.max_connection_creation_rate))
        counted.append((listener.rate, listener.limit))
        for rate, limit in counted:
            rate.record(1, now_ms)
            if limit < INT_MAX:
                wait_ms = max(wait_ms, rate.wait_ms(limit, now_ms))
        if self._is_refused(stream, now_ms):
            for rate, _ in counted:
                rate.record(-1, now_ms)
        elif wait_ms:
            self._accept_later(listener, stream, accept, min(wait_ms, self._windows.window_ms))
        else:
            accept(stream)

    def _accept_later(
        self, listener: "ListenerRate", stream: Stream, accept: Accept, wait_ms: int
    ) -> None:
        """The others wait in the queue of the operating system."""
        assert listener.listening is not None
        listener.listening.pause()

        def over() -> None:
            assert listener.listening is not None
            accept(self._waiting.pop(timer))
            listener.listening.resume()

        timer = self._broker.loop.call_later(wait_ms / 1000, over)
        self._waiting[timer] = stream

    def _is_refused(self, stream: Stream, now_ms: int) -> bool:
        """Whether its address is over its quota; then the stream is closed, after a while."""
        quotas = self._broker.quotas
        host = host_of(stream.peer)
        found = None if quotas is None else quotas.address_limit(host)
        if quotas is None or found is None:
            return False
        limit, rate = found
        rate.record(1, now_ms)
        wait_ms = min(rate.wait_ms(limit.value, now_ms), self._windows.window_ms)
        if not wait_ms:
            return False
        rate.record(-1, now_ms)
        quotas.log.add(QuotaKind.CONNECTION, limit, "", "", host, wait_ms)
        self._broker.counts.connections_refused += 1
        if len(self._waiting) >= HELD_MAX:
            stream.close()
            return True

        def over() -> None:
            self._waiting.pop(timer).close()

        timer = self._broker.loop.call_later(wait_ms / 1000, over)
        self._waiting[timer] = stream
        return True

    def close(self) -> None:
        for timer, stream in self._waiting.items():
            timer.cancel()
            stream.close()
        self._waiting.clear()
