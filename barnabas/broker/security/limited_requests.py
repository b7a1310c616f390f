"""Requests of clients that have quotas: what each uses is counted, and who is over a limit waits.

In: decoders and handlers of APIs. Out: the same, which count. The reply leaves at once with the
time to wait in it; then the connection is not read for that time.
Always: requests of other brokers are not limited, nor replies to followers; a request with several
limits waits for the longest.
Not here: topics and partitions that are created and deleted (mutation_quota.py).

The time of a request is that of the event loop: decoding, and each step of its handler. What it
waits for is not counted, nor sending the reply.
"""

from collections.abc import Callable, Generator
from time import perf_counter
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from barnabas.broker.authorization.answers import changed
from barnabas.broker.cluster_member import PEER
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import BETWEEN_BROKERS, NO_CONNECTION, Call
from barnabas.security.quotas.quota_limits import INT_MAX, QuotaKind
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.share_fetch import ShareFetchRequest

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.broker.handlers.fetch import FetchPlan, Reading, Unlimited
    from barnabas.broker.security.quotas import ClientQuotas, ClientUsage

PRODUCE, FETCH = 0, 1
SHARE_FETCH = 78
WRITE_TXN_MARKERS = 27
EXEMPT = (*BETWEEN_BROKERS, WRITE_TXN_MARKERS)

Decode = Callable[[Any, int, int], Any]
Handle = Callable[["Broker", Any, Call], Any]


class LimitedRequests:
    """Of one API. The dispatcher calls `decode` and then, at once, `handle`."""

    __slots__ = ("_began", "_decode", "_handle", "_key", "_quotas", "_size")

    def __init__(self, quotas: "ClientQuotas", key: int, decode: Decode, handle: Handle) -> None:
        self._quotas = quotas
        self._key = key
        self._decode = decode
        self._handle = handle
        self._size = 0
        self._began = 0.0

    def decode(self, frame: memoryview, version: int, position: int) -> Any:
        self._size = len(frame)
        self._began = perf_counter()
        return self._decode(frame, version, position)

    def handle(self, broker: "Broker", request: Any, call: Call) -> Any:
        if is_of_broker(broker, call):
            return self._handle(broker, request, call)
        use = _RequestUse(self._quotas, self._key, call, self._size)
        if self._key in (FETCH, SHARE_FETCH):
            request = within_windows(self._quotas, request, call)
        answer = self._handle(broker, request, call)
        use.spent_s = perf_counter() - self._began
        if isinstance(answer, ProtocolMessage):
            return use.finish(answer)
        if answer is None:  # acks=0: the producer gets no reply, and waits all the same
            use.finish_silently()
            return None
        if isinstance(answer, DeferredReply):
            return use.finish_later(answer)
        return use.run(answer)


class _RequestUse:
    """What one request has used."""

    __slots__ = ("_call", "_key", "_quotas", "_size", "spent_s")

    def __init__(self, quotas: "ClientQuotas", key: int, call: Call, size: int) -> None:
        self._quotas = quotas
        self._key = key
        self._call = call
        self._size = size
        self.spent_s = 0.0

    def finish(self, response: ProtocolMessage) -> ProtocolMessage:
        """The response with the time to wait; from now on the connection waits."""
        told_ms: int = getattr(response, "throttle_time_ms", 0)
        wait_ms = max(told_ms, self._wait_ms())
        if wait_ms > 0:
            self._quotas.mute(self._call.connection, wait_ms)
            if wait_ms > told_ms and hasattr(response, "throttle_time_ms"):
                return changed(response, throttle_time_ms=wait_ms)
        return response

    def finish_silently(self) -> None:
        wait_ms = self._wait_ms()
        if wait_ms > 0:
            self._quotas.mute(self._call.connection, wait_ms)

    def _wait_ms(self) -> int:
        wait_ms = 0
        if self._key == PRODUCE:
            wait_ms = self._quotas.used(QuotaKind.PRODUCE, self._call, self._size)
        return max(wait_ms, self._quotas.used(QuotaKind.REQUEST, self._call, self.spent_s * 100))

    def finish_later(self, answer: DeferredReply[Any]) -> DeferredReply[Any]:
        finished: DeferredReply[Any] = DeferredReply()
        finished.cancelled = answer.abandon
        answer.then(lambda response: finished.set(self.finish(response)))
        return finished

    async def run(self, answer: Any) -> Any:
        response = await self._timed(answer)
        if response is None:
            self.finish_silently()
            return None
        if isinstance(response, DeferredReply):
            return self.finish_later(response)
        return self.finish(response)

    @coroutine
    def _timed(self, answer: Any) -> Generator[Any, Any, Any]:
        """Await it, and count the time of each of its steps."""
        steps = answer.__await__()
        send, value = steps.send, None
        while True:
            began = perf_counter()
            try:
                waits_for = send(value)
            except StopIteration as end:
                return end.value
            finally:
                self.spent_s += perf_counter() - began
            try:
                send, value = steps.send, (yield waits_for)
            except BaseException as error:  # a cancelled request
                send, value = steps.throw, error


def is_of_broker(broker: "Broker", call: Call) -> bool:
    """Whether a broker of this cluster asks. Its client id alone proves nothing: it must come by
    the listener between brokers, and with access rules have the right to act as a broker."""
    if call.connection is NO_CONNECTION:
        return True
    if broker.cluster is None or not call.client_id.startswith(PEER):
        return False
    if call.connection.listener != broker.config.between_brokers:
        return False
    if broker.authorizer is None:
        return True
    from barnabas.broker.authorization.requester import is_broker

    return is_broker(broker.authorizer, call)


# Fetch


AnyFetch = TypeVar("AnyFetch", FetchRequest, ShareFetchRequest)


def within_windows(quotas: "ClientQuotas", request: AnyFetch, call: Call) -> AnyFetch:
    """No reply may be larger than what the client may fetch in all windows: it would never be
    within the limit."""
    usage = quotas.usage(QuotaKind.FETCH, call.connection.principal.name, call.client_id)
    if usage is None:
        return request
    seconds = max(quotas.windows.number - 1, 1) * quotas.windows.window_ms / 1000
    most = max(1, int(min(usage.limit.value * seconds, INT_MAX)))
    if request.max_bytes <= most:
        return request
    return changed(request, max_bytes=most, min_bytes=min(request.min_bytes, most))


class LimitedFetch:
    """A fetch of a client with a limit: while the client is over it, the reply has no records."""

    __slots__ = ("_call", "_quotas", "_reading", "_usage", "request")

    def __init__(
        self, quotas: "ClientQuotas", usage: "ClientUsage", reading: "Unlimited", call: Call
    ) -> None:
        self._quotas = quotas
        self._usage = usage
        self._reading = reading
        self._call = call
        self.request: FetchRequest = reading.request

    def plan(self) -> "FetchPlan":
        return self._reading.plan()

    def respond(self, plan: "FetchPlan") -> FetchResponse:
        if not plan.size:
            return self._reading.respond(plan)
        usage, now_ms = self._usage, self._quotas.now_ms()
        before = usage.rate.total(now_ms)
        usage.rate.record(plan.size, now_ms)
        wait_ms = min(usage.rate.wait_ms(usage.limit.value, now_ms), INT_MAX)
        if wait_ms <= 0:
            return self._reading.respond(plan)
        self._quotas.throttled(QuotaKind.FETCH, usage.limit, self._call, wait_ms)
        if not before:  # one batch that is larger than all windows: else it would never be sent
            return changed(self._reading.respond(plan), throttle_time_ms=wait_ms)
        usage.rate.record(-plan.size, now_ms)
        return changed(self._reading.without_records(), throttle_time_ms=wait_ms)


def limited_fetch(quotas: "ClientQuotas", reading: "Unlimited", call: Call) -> "Reading":
    usage = quotas.usage(QuotaKind.FETCH, call.connection.principal.name, call.client_id)
    return reading if usage is None else LimitedFetch(quotas, usage, reading, call)


class ShareFetchLimit:
    """Of one fetch of a share session. A client over its limit acquires nothing: Kafka acquires
    the records and does not send them, so that they are locked and an attempt is lost."""

    __slots__ = ("_call", "_counted", "_quotas", "_usage", "wait_ms")

    def __init__(self, quotas: "ClientQuotas", usage: "ClientUsage", call: Call) -> None:
        self._quotas = quotas
        self._usage = usage
        self._call = call
        self._counted = 0
        self.wait_ms = 0

    def allows(self, size: int) -> bool:
        """Count so many bytes, unless they are too many: whether records may be acquired now."""
        usage, now_ms = self._usage, self._quotas.now_ms()
        before = usage.rate.total(now_ms)
        usage.rate.record(size, now_ms)
        self.wait_ms = self._wait_ms(now_ms)
        if self.wait_ms and before:  # else one batch larger than all windows would never be sent
            usage.rate.record(-size, now_ms)
            self._throttled()
            return False
        self._counted = size
        return True

    def sent(self, size: int) -> None:
        """So many bytes were really acquired."""
        now_ms = self._quotas.now_ms()
        self._usage.rate.record(size - self._counted, now_ms)
        self.wait_ms = self._wait_ms(now_ms) if size else 0
        if self.wait_ms:
            self._throttled()

    def _wait_ms(self, now_ms: int) -> int:
        usage = self._usage
        return max(0, min(usage.rate.wait_ms(usage.limit.value, now_ms), INT_MAX))

    def _throttled(self) -> None:
        self._quotas.throttled(QuotaKind.FETCH, self._usage.limit, self._call, self.wait_ms)


def share_fetch_limit(quotas: "ClientQuotas", call: Call) -> ShareFetchLimit | None:
    usage = quotas.usage(QuotaKind.FETCH, call.connection.principal.name, call.client_id)
    return None if usage is None else ShareFetchLimit(quotas, usage, call)
