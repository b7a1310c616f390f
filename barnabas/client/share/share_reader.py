"""Executes what `ShareFetching` decides: sends its requests, and gives it the responses.

Written once over `Net`. Always: a wait for a broker ends with the deadline of the call, and the
next call goes on waiting; metadata is refreshed when the brokers' answers do not fit it.
Not here: deciding (share_fetching.py), the group (client/consumer/membership/member.py), the
user's calls (share_consumer.py).
"""

import logging
from collections.abc import Callable, Sequence

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.message import RawMessage
from barnabas.client.net import PendingResponse
from barnabas.client.share.sessions import ShareFetchLimits
from barnabas.client.share.share_fetching import ShareFetching, ShareRequestPlan
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.share_acknowledge import ShareAcknowledgeResponse
from barnabas.wire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse

_log = logging.getLogger("barnabas.client")
_WAIT_MS_MAX = 60_000
_CLOSE_MS_MAX = 5_000
_APART = "share"  # a connection of its own: a fetch waits on it, and its session ends with it
_GLANCE_MS = 10

Others = Callable[[], Sequence[PendingResponse[ProtocolMessage]]]
Answer = PendingResponse[ShareFetchResponse] | PendingResponse[ShareAcknowledgeResponse]


class ShareReader:
    """The requests of one member to the leaders of its partitions."""

    def __init__(self, cluster: ClusterClient, core: ShareFetching) -> None:
        self.cluster = cluster
        self.core = core
        self.wake_up = cluster.net.wake_up()
        self._answers: dict[int, Answer] = {}
        self._connecting = cluster.net.bounded_task()
        self._learning = cluster.net.bounded_task()
        self._picture_at = cluster.net.now_ms()
        self._retry_at = 0
        self._yielded_at = 0
        self._silent = False  # an error that was logged already
        self._modes = {"batch_optimized": 0, "record_limit": 1}

    @property
    def in_flight(self) -> bool:
        return bool(self._answers)

    async def poll(self, count_max: int, deadline: int | None, others: Others) -> list[RawMessage]:
        """Messages, if there are any; otherwise waits once, for a response or the deadline."""
        net = self.cluster.net
        now = net.now_ms()
        if now - self._yielded_at >= _GLANCE_MS:
            await self.glance(others)
        await self._gather()
        if self.core.messages.has_messages:
            taken = self.core.messages.take(count_max, net.now_ms())
            await self.send(None, net.now_ms())  # acknowledgements of the messages before
            if taken:
                return taken
        now = net.now_ms()
        await self.send(self._limits(count_max, now, deadline), deadline)
        if deadline is not None and net.now_ms() >= deadline:
            return []
        await self._wait(deadline, others)
        await self._gather()
        return (
            self.core.messages.take(count_max, net.now_ms())
            if self.core.messages.has_messages
            else []
        )

    def _limits(self, count_max: int, now: int, deadline: int | None) -> ShareFetchLimits:
        config = self.cluster.config
        wait_ms = config.fetch_max_wait_ms
        if deadline is not None:
            wait_ms = min(wait_ms, max(0, deadline - now))
        return ShareFetchLimits(
            wait_ms,
            config.fetch_min_bytes,
            config.fetch_max_bytes,
            count_max,
            self._modes[config.share_acquire_mode],
        )

    async def glance(self, others: Others) -> None:
        """Process received responses, and let other tasks run, without waiting."""
        self._yielded_at = self.cluster.net.now_ms()
        await self.wake_up.wait([*others(), *self._answers.values()], 0)
        await self._gather()

    async def send(self, limits: ShareFetchLimits | None, deadline: int | None) -> None:
        """Send what is due: acknowledgements, and with `limits` also fetches."""
        net = self.cluster.net
        if net.now_ms() < self._retry_at:
            return
        self._retry_at = 0
        try:
            if self._is_old(net.now_ms()) and not await self._learning.done(self._learn, deadline):
                return
            view = self.cluster.known
            if view is None:
                return
            for plan in self.core.plan(view, net.now_ms(), limits):
                await self._send(plan, deadline)
            self._silent = False
        except Retriable as problem:
            self._retry_at = net.now_ms() + self.cluster.config.retry_backoff_ms
            self.core.stale = True
            self.cluster.drop_closed()
            if not self._silent:
                self._silent = True
                _log.warning("reading failed, retrying: %s", problem)

    async def settle(self, deadline: int, others: Others) -> None:
        """Send all acknowledgements, and wait for their results, until the deadline."""
        net = self.cluster.net
        while self.core.unsent:
            await self.send(None, deadline)
            if net.now_ms() >= deadline:
                return
            await self._wait(deadline, others)
            await self._gather()

    async def close(self) -> None:
        """End the sessions: acknowledgements go along, and the brokers release the rest."""
        net = self.cluster.net
        deadline = net.now_ms() + min(_CLOSE_MS_MAX, self.cluster.timeout_ms)
        try:
            await self.settle(deadline, tuple)
            pending = []
            for plan in self.core.closing_requests(net.now_ms()):
                connection = self.cluster.connected(plan.broker, apart=_APART)
                if connection is None:
                    self.core.failed_request(plan.broker, _gone(plan.broker), 0, sent=False)
                    continue
                timeout_ms = max(1, deadline - net.now_ms())
                answer = connection.send(
                    plan.request, ShareAcknowledgeResponse, timeout_ms=timeout_ms
                )
                pending.append((plan.broker, answer))
            for broker, answer in pending:
                try:
                    self.core.answered(broker, await answer, net.now_ms())
                except KafkaError as problem:
                    self.core.failed_request(broker, problem, net.now_ms(), sent=True)
        except KafkaError as problem:
            _log.warning("a share session was not closed, its locks will end: %s", problem)
        self._answers.clear()

    # --- requests ---

    def _is_old(self, now: int) -> bool:
        topics = {at.topic: None for at in self.core.assigned}
        return bool(
            self.core.stale
            or now - self._picture_at > self.cluster.config.metadata_max_age_ms
            or self.cluster.missing(topics)
        )

    async def _learn(self) -> None:
        if self.core.stale:
            now = self.cluster.net.now_ms()
            last = self._picture_at
            pause = self.cluster.config.retry_backoff_ms
            if now - last < pause:
                await self.cluster.net.sleep(pause - (now - last))
        self._picture_at = self.cluster.net.now_ms()
        self.core.stale = False
        try:
            await self.cluster.view({at.topic: None for at in self.core.assigned})
            await self.cluster.refresh()
        except KafkaError:
            self.core.stale = True
            raise

    async def _send(self, plan: ShareRequestPlan, deadline: int | None) -> None:
        cluster, broker, request = self.cluster, plan.broker, plan.request
        was_sent = False
        try:
            connection = cluster.connected(broker, apart=_APART)
            if connection is None:
                if request.share_session_epoch:  # the session ended with its connection
                    raise _gone(broker)
                if not await self._connecting.done(
                    lambda: cluster.broker(broker, apart=_APART), deadline
                ):
                    raise Retriable(Code.NETWORK_EXCEPTION, f"broker {broker}: not connected yet")
                connection = await cluster.broker(broker, apart=_APART)
            was_sent = True
            if isinstance(request, ShareFetchRequest):
                timeout_ms = cluster.timeout_ms + request.max_wait_ms
                self._answers[broker] = connection.send(
                    request, ShareFetchResponse, timeout_ms=timeout_ms
                )
            else:
                self._answers[broker] = connection.send(
                    request, ShareAcknowledgeResponse, timeout_ms=cluster.timeout_ms
                )
        except KafkaError as problem:
            # A request that cannot be encoded for this broker is not sent.
            unsupported = problem.code is Code.UNSUPPORTED_VERSION
            now = cluster.net.now_ms()
            self.core.failed_request(broker, problem, now, sent=was_sent and not unsupported)
            cluster.drop_closed()
            if unsupported and isinstance(request, ShareFetchRequest):
                raise
            if not isinstance(problem, Retriable) and not unsupported:
                raise
        except BaseException:
            now = cluster.net.now_ms()
            cancelled = Retriable(Code.NETWORK_EXCEPTION, "cancelled")
            self.core.failed_request(broker, cancelled, now, sent=was_sent)
            raise

    async def _gather(self) -> None:
        net = self.cluster.net
        for broker, answer in list(self._answers.items()):
            if not answer.done():
                continue
            del self._answers[broker]
            try:
                response = await answer
            except KafkaError as problem:
                self.core.failed_request(broker, problem, net.now_ms(), sent=True)
                self.cluster.drop_closed()
                if not isinstance(problem, Retriable):
                    raise
                continue
            self.core.answered(broker, response, net.now_ms())
        if self.core.failed is not None:
            failed, self.core.failed = self.core.failed, None
            raise failed

    async def _wait(self, deadline: int | None, others: Others) -> None:
        now = self.cluster.net.now_ms()
        until = now + _WAIT_MS_MAX
        for time in (deadline, self._retry_at or None, self.core.next_retry()):
            if time is not None:
                until = min(until, time)
        if self.core.stale:
            until = min(until, now + self.cluster.config.retry_backoff_ms)
        await self.wake_up.wait([*others(), *self._answers.values()], max(1, until - now))
        self._yielded_at = self.cluster.net.now_ms()


def _gone(broker: int) -> KafkaError:
    return Retriable(
        Code.NETWORK_EXCEPTION,
        f"the connection to broker {broker} was lost: the broker releases the records of its share"
        " session, and delivers them again",
    )
