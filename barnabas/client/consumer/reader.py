"""Reads partitions: finds offsets, fetches ahead, returns messages.

Written once over `Net`. Consumer and PartitionConsumer use it.
Always: after messages are taken they are returned without waiting, so a caller that is cancelled
loses none; temporary errors are retried after a metadata refresh.
Not here: groups (client/consumer/membership/member.py), what is fetched when (fetching.py).
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer.fetching import (
    FetchLimits,
    FetchOutcome,
    FetchPlanner,
    FetchRequestPlan,
    no_place,
)
from barnabas.client.consumer.message import RawMessage
from barnabas.client.consumer.offset_lookup import Reset, places_at
from barnabas.client.consumer.positions import UNKNOWN, FetchPosition, ReadPositions
from barnabas.client.net import PendingResponse
from barnabas.model.errors import Code, Corrupt, InvalidRequest, KafkaError, Retriable
from barnabas.model.ids import TopicPartition
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.fetch import FetchResponse
from barnabas.wire.messages.list_offsets import LATEST

if TYPE_CHECKING:
    from barnabas.client.consumer.arrow import ArrowRows

_log = logging.getLogger("barnabas.client")
_WAIT_MS_MAX = 60_000
_GLANCE_MS = 2  # how often other tasks run while messages are available
_LATE_MS = 1_000
_UNKNOWN_MS_MAX = 3_000

Search = Callable[[Sequence[TopicPartition]], Awaitable[dict[TopicPartition, FetchPosition]]]


class PartitionReader:
    """Reads all partitions of `progress`."""

    def __init__(self, cluster: ClusterClient, reset: Reset, search: Search | None = None) -> None:
        config = cluster.config
        self.cluster = cluster
        self.committed_only = config.isolation_level == "read_committed"
        self.progress = ReadPositions(crc=config.check_crcs)
        self.wake_up = cluster.net.wake_up()
        self._reset = reset
        self._search = search  # reads the committed offsets
        self._limits = FetchLimits(
            wait_ms_max=config.fetch_max_wait_ms,
            bytes_min=config.fetch_min_bytes,
            bytes_max=config.fetch_max_bytes,
            partition_bytes_max=config.max_partition_fetch_bytes,
            backoff_ms=config.retry_backoff_ms,
            replica_ms_max=config.metadata_max_age_ms,
        )
        self._fetching = FetchPlanner(
            self.progress,
            self._limits,
            committed_only=self.committed_only,
            rack=config.client_rack,
        )
        self._answers: dict[int, PendingResponse[FetchResponse]] = {}
        self._opening = cluster.net.bounded_task()
        self._learning = cluster.net.bounded_task()
        self._connecting = cluster.net.bounded_task()
        # partitions whose offset is no longer in the log
        self._gone: dict[TopicPartition, None] = {}
        self._stale = False
        self._picture_at = cluster.net.now_ms()
        self._retry_at = 0  # when to retry after a failure; 0: no failure
        self._yielded_at = 0
        self._ended = False
        self._unknown_since = 0
        # when offsets of an open transaction were first found
        self._unstable_since = 0
        self._silent = False  # errors that were logged already

    # --- partitions ---

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        self.progress.add(partitions)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        self.progress.remove(partitions)

    def seek(self, at: TopicPartition, place: FetchPosition) -> None:
        self.progress[at].seek(place)

    def give_back(self, messages: Sequence[RawMessage]) -> None:
        """The last returned messages were not used: they are returned again."""
        by_partition: dict[TopicPartition, list[RawMessage]] = {}
        for message in messages:
            at = TopicPartition(message.topic, message.partition)
            by_partition.setdefault(at, []).append(message)
        for at, rest in by_partition.items():
            if (one := self.progress.get(at)) is not None:
                one.give_back(rest)

    def positions(self) -> dict[TopicPartition, FetchPosition]:
        """The offset of the next message to return, where it is known."""
        return {
            one.at: FetchPosition(one.offset, one.epoch)
            for one in self.progress
            if one.offset != UNKNOWN
        }

    # --- reading ---

    async def poll(
        self,
        count_max: int,
        deadline: int | None,
        others: Callable[[], Sequence[PendingResponse[ProtocolMessage]]] | None = None,
    ) -> list[RawMessage]:
        """Messages, if there are any or one comes before the deadline.

        `others`: responses that end the wait as well; then no messages are returned.
        """
        net = self.cluster.net
        while True:
            await self._advance(net.now_ms(), deadline)
            if self.progress.readable:
                if taken := self.progress.take(count_max):
                    return taken
                continue
            now = net.now_ms()
            if self.progress.finished or (deadline is not None and now >= deadline):
                return []
            await self._wait(now, deadline, others() if others is not None else ())
            if others is not None:
                await self._gather(net.now_ms())
                if not self.progress.readable:
                    return []

    async def poll_rows(self, rows: "ArrowRows", count_max: int, deadline: int | None) -> None:
        """Rows, if there are any or one comes before the deadline; up to the current end."""
        net = self.cluster.net
        while True:
            await self._advance(net.now_ms(), deadline)
            if self.progress.readable:
                self.progress.take_rows(rows, count_max)
                if rows.rows:
                    return
                continue
            now = net.now_ms()
            if self.progress.finished or (deadline is not None and now >= deadline):
                return
            await self._wait(now, deadline, ())

    async def _advance(self, now: int, deadline: int | None) -> None:
        """Process received responses, and fetch more; let other tasks run only from
        time to time.
        """
        if self._ended:
            raise closed()
        if now - self._yielded_at >= _GLANCE_MS:
            self._yielded_at = now
            await self.wake_up.wait(list(self._answers.values()), 0)
        await self._gather(now)
        await self._prepare(now, deadline)

    async def glance(self, others: Sequence[PendingResponse[ProtocolMessage]]) -> None:
        """Process received responses, and let other tasks run, without waiting."""
        self._yielded_at = self.cluster.net.now_ms()
        await self.wake_up.wait([*others, *self._answers.values()], 0)

    async def _wait(
        self, now: int, deadline: int | None, others: Sequence[PendingResponse[ProtocolMessage]]
    ) -> None:
        await self.wake_up.wait([*others, *self._answers.values()], self._wait_ms(now, deadline))
        self._yielded_at = self.cluster.net.now_ms()

    def _wait_ms(self, now: int, deadline: int | None) -> int:
        until = now + _WAIT_MS_MAX
        if deadline is not None:
            until = min(until, deadline)
        # Either time may have passed during another wait: then continue at once.
        again = self._retry_at or self._fetching.next_deadline()
        if again is not None:
            until = min(until, again)
        return max(1, until - now)

    async def _prepare(self, now: int, deadline: int | None) -> None:
        """Prepares all that is needed before messages can arrive: metadata, offsets, fetches.

        The next call continues to wait for what has not arrived by the deadline.
        """
        if now < self._retry_at:
            return
        self._retry_at = 0
        if self.cluster.known is None and not await self._opening.done(
            lambda: self.cluster.retrying(self.cluster.view),  # fails at once if no broker answers
            deadline,
        ):
            return
        try:
            # A refresh that began earlier may not include the topics that are missing now.
            for _ in range(1 + self._learning.under_way):
                if self._lacks(now) and not await self._learning.done(
                    lambda: self._learn(now), deadline
                ):
                    return
            await self._fetch(now, deadline)
            self._silent = False
            self._unknown_since = self._unstable_since = 0
        except KafkaError as problem:
            if not self._may_pass(problem, now):
                raise
            self._stale = True
            self._retry_at = self.cluster.net.now_ms() + self._limits.backoff_ms
            self.cluster.drop_closed()
            if not self._silent and not self._is_brief(problem, now):
                self._silent = True
                _log.warning("reading failed, retrying: %s", problem)

    def _topics(self) -> dict[str, None]:
        return {one.at.topic: None for one in self.progress}

    def _is_old(self, now: int) -> bool:
        return self._stale or now - self._picture_at > self.cluster.config.metadata_max_age_ms

    def _lacks(self, now: int) -> bool:
        """Whether something must be looked up before records can be fetched."""
        return bool(
            self._is_old(now) or self.progress.lost_place() or self.cluster.missing(self._topics())
        )

    async def _learn(self, now: int) -> None:
        if self._is_old(now):
            self._picture_at = now
            await self.cluster.refresh()
            self._stale = False
        if lost := self.progress.lost_place():
            await self.find(lost)
        await self.cluster.view(self._topics())

    def _may_pass(self, problem: KafkaError, now: int) -> bool:
        """A missing topic is not an error at once: not every broker may know a new topic, and the
        group may not know yet that a topic was deleted.
        """
        if problem.code is Code.UNKNOWN_TOPIC_OR_PARTITION:
            self._unknown_since = self._unknown_since or now
            return self._search is not None or now < self._unknown_since + _UNKNOWN_MS_MAX
        return isinstance(problem, Retriable)

    def _is_brief(self, problem: KafkaError, now: int) -> bool:
        """Whether not to log yet: a transaction that has just ended still has pending offsets."""
        if problem.code is not Code.UNSTABLE_OFFSET_COMMIT:
            return False
        self._unstable_since = self._unstable_since or now
        return now < self._unstable_since + _LATE_MS

    async def find(self, lost: list[TopicPartition]) -> None:
        """Finds the offset to start from in partitions without a position."""
        found: dict[TopicPartition, FetchPosition] = {}
        left_off = [at for at in lost if at not in self._gone]
        if self._search is not None and left_off:
            found = await self._search(left_off)
        missing = [at for at in lost if at not in found]
        if missing:
            found |= await self._find_by_reset(missing)
        for at, place in found.items():
            one = self.progress.get(at)
            if one is not None and one.offset == UNKNOWN:  # the position was not set meanwhile
                one.seek(place)
                self._gone.pop(at, None)

    async def _find_by_reset(
        self, missing: list[TopicPartition]
    ) -> dict[TopicPartition, FetchPosition]:
        time = self._reset.time(self.cluster.net.wall_ms())
        if time is None:
            raise no_place(missing[0], -1)
        return await self.places(dict.fromkeys(missing, time))

    async def places(
        self, times: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, FetchPosition]:
        """The offsets of the first records at these times; the end if all records are older.

        Without the partitions whose leader does not answer now.
        """
        found = await places_at(self.cluster, times, committed_only=self.committed_only)
        ended = [at for at, place in found.items() if place.offset < 0]
        if ended:
            for at in ended:
                del found[at]
            found |= await places_at(
                self.cluster, dict.fromkeys(ended, LATEST), committed_only=self.committed_only
            )
        for at, place in found.items():
            if place.offset < 0:
                raise Corrupt(f"{at}: its leader says that it ends at offset {place.offset}")
        return found

    async def _fetch(self, now: int, deadline: int | None) -> None:
        view = self.cluster.known
        assert view is not None  # it was learned
        asks, stale = self._fetching.plan(view, now)
        self._stale = self._stale or stale
        for ask in asks:
            await self._send(ask, now, deadline)

    async def _send(self, ask: FetchRequestPlan, now: int, deadline: int | None) -> None:
        try:
            connection = self.cluster.connected(ask.broker, apart="fetch")
            if connection is None:
                if not await self._connecting.done(
                    lambda: self.cluster.broker(ask.broker, apart="fetch"), deadline
                ):
                    self._fetching.lost(ask.broker, now)
                    return
                connection = await self.cluster.broker(ask.broker, apart="fetch")
            self._answers[ask.broker] = connection.send(
                ask.request,
                FetchResponse,
                timeout_ms=self.cluster.timeout_ms + ask.request.max_wait_ms,
                version_max=ask.version_max,
            )
        except BaseException as problem:
            self._fetching.lost(ask.broker, self.cluster.net.now_ms())
            self._stale = True
            if not isinstance(problem, Retriable):
                raise

    async def _gather(self, now: int) -> None:
        for broker, answer in list(self._answers.items()):
            if not answer.done():
                continue
            del self._answers[broker]
            try:
                response = await answer
            except KafkaError as problem:
                self._fetching.lost(broker, now)
                self._stale = True
                self.cluster.drop_closed()
                if not isinstance(problem, Retriable):
                    raise
                continue
            view = self.cluster.known
            assert view is not None  # otherwise there would have been no request
            self._settle(self._fetching.answered(broker, response, view, now))

    def _settle(self, outcome: FetchOutcome) -> None:
        self._stale = self._stale or outcome.stale
        for at in outcome.out_of_range:
            one = self.progress[at]
            if self._reset.time(0) is None:
                one.failed = no_place(at, one.fetch_offset)
                continue
            _log.warning(
                "%s: offset %d is not in the log, resetting by auto.offset.reset", at, one.offset
            )
            # Not at the committed offset: that one is no longer in the log.
            self._gone[at] = None
            one.seek(FetchPosition(UNKNOWN))
        for at, place in outcome.truncated.items():
            one = self.progress[at]
            if self._reset.time(0) is None:
                one.failed = Retriable(
                    Code.OFFSET_OUT_OF_RANGE,
                    f"{at}: records before offset {one.fetch_offset} were lost in a change of"
                    f" leaders, the log as it was read ends at {place.offset}: seek there",
                )
            else:
                _log.warning("%s: the log was truncated to %d, reading on there", at, place.offset)
                one.seek(place)

    def end(self) -> None:
        """A caller that waits for messages gets the error that the consumer is closed."""
        self._ended = True
        self.wake_up.notify()

    async def close(self) -> None:
        """Cancel all requests; the cluster stays open."""
        for ask in self._fetching.closing_requests():
            try:
                connection = await self.cluster.broker(ask.broker, apart="fetch")
                await connection.call(ask.request, FetchResponse, timeout_ms=_LATE_MS)
            except KafkaError:
                pass  # the broker drops the session by itself


def closed() -> InvalidRequest:
    return InvalidRequest(Code.INVALID_REQUEST, "the consumer is closed")
