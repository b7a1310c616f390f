"""A program that delivers the records of holding topics; several of them share the partitions.

A consumer group assigns the partitions, and reads them. Each partition has a task of its own.
Always: the records of a partition are read from where its ledger says, after it was taken over; a
partition that fails is taken over again after a pause, and the others go on. Two programs that
both believe to have a partition cannot both commit (move_writer.py).
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from barnabas.client.admin.admin import Admin
from barnabas.client.aio import open_cluster
from barnabas.client.consumer.consumer import Consumer
from barnabas.client.consumer.message import RawMessage
from barnabas.client.delay.delay_statistics import DelayStatistics, DelayView
from barnabas.client.delay.delayed_record import DAY_MS
from barnabas.client.delay.holding_topics import (
    marked_topics,
    prepare_holding_topic,
)
from barnabas.client.delay.partition_delayer import PartitionDelayer
from barnabas.config.client import Settings
from barnabas.model.errors import KafkaError, Retriable
from barnabas.model.ids import TopicPartition

GROUP = "barnabas.delay"
DAYS_MAX = 7
_LOOK_S = 5.0  # for new holding topics
_POLL_S = 0.1
_PAUSE_S, _PAUSE_S_MAX = 0.5, 30.0
_CHUNK = 1_000
_FIXED = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": "false",
    "allow.auto.create.topics": "false",
}
_DEFAULTS = {"session.timeout.ms": "10000"}  # a partition of one that was killed waits as long
_log = logging.getLogger("barnabas.delay")


class Delayer:
    """Delivers from these topics; from all with barnabas.scheduler=true if none is named."""

    def __init__(
        self,
        topics: Sequence[str],
        settings: Settings,
        *,
        group: str = GROUP,
        days_max: int = DAYS_MAX,
    ) -> None:
        self._named = list(topics)
        self._settings = {**_DEFAULTS, **settings, **_FIXED, "group.id": group}
        self._group = group
        self._delay_ms_max = days_max * DAY_MS
        self._cluster = open_cluster(self._settings, {})
        self._admin = Admin(cluster=self._cluster)
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._delayers: dict[TopicPartition, PartitionDelayer] = {}
        # taken over, and not read yet: where to begin
        self._opened: dict[TopicPartition, tuple[PartitionDelayer, int]] = {}
        self._statistics: dict[TopicPartition, DelayStatistics] = {}
        self._stopping = asyncio.Event()

    def views(self) -> list[DelayView]:
        """Of the partitions that it has, or had: counters do not go back. Also from a thread."""
        delayers = dict(self._delayers)
        return [
            delayers[at].view() if at in delayers else DelayView(*at, found)
            for at, found in list(self._statistics.items())
        ]

    def stop(self) -> None:
        self._stopping.set()

    async def run(self, ready: Callable[[list[str]], None] = lambda names: None) -> None:
        """Until `stop`. `ready` is called with the topics, at the beginning and when they change.

        Raises if the topics cannot be used.
        """
        try:
            names = await self._first_topics()
            if names:
                ready(names)
                await self._serve(names, ready)
        finally:
            self._cluster.close()

    async def _first_topics(self) -> list[str]:
        for name in self._named:
            await prepare_holding_topic(self._admin, name, create=True)
        if self._named:
            return self._named
        while not self._stopping.is_set():
            if names := await self._marked():
                return names
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._stopping.wait()
        return []

    async def _marked(self) -> list[str]:
        """A topic that cannot be used does not stop the others."""
        found = []
        for name in await marked_topics(self._admin):
            try:
                await prepare_holding_topic(self._admin, name, create=False)
                found.append(name)
            except KafkaError as problem:
                _log.warning("topic %s is not served: %s", name, problem.detail)
        return found

    async def _serve(self, names: list[str], ready: Callable[[list[str]], None]) -> None:
        loop = asyncio.get_running_loop()
        look_at = loop.time() + _LOOK_S
        consumer: Consumer = Consumer(
            *names,
            self._settings,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._revoked,
        )
        try:
            while not self._stopping.is_set():
                try:
                    await self._begin_reading(consumer)
                    await self._poll(consumer)
                except Retriable as problem:
                    _log.warning("nothing is read at the moment: %s", problem.detail)
                    await asyncio.sleep(_PAUSE_S)
                if not self._named and loop.time() >= look_at:
                    look_at = loop.time() + _LOOK_S
                    names = await self._resubscribed(consumer, names, ready)
        finally:
            await self._end_all()
            await consumer.close()

    async def _resubscribed(
        self, consumer: Consumer, names: list[str], ready: Callable[[list[str]], None]
    ) -> list[str]:
        try:
            found = await self._marked()
        except Retriable as problem:
            _log.warning("holding topics are not looked up: %s", problem.detail)
            return names
        if found and found != names:
            consumer.subscribe(*found)
            ready(found)
            return found
        return names

    # --- reading ---

    async def _begin_reading(self, consumer: Consumer) -> None:
        """Between two polls: what was fetched before belongs to an earlier delayer."""
        for at in list(self._opened):
            delayer, begin = self._opened.pop(at)
            await consumer.seek(at, begin)
            consumer.resume(at)
            self._delayers[at] = delayer
        paused = set(consumer.paused())
        if idle := [
            at for at in consumer.assignment() if at not in self._delayers and at not in paused
        ]:
            consumer.pause(*idle)

    async def _poll(self, consumer: Consumer) -> None:
        """Nothing is awaited between taking records and handing them out: none gets lost."""
        by_partition: dict[TopicPartition, list[RawMessage]] = {}
        for message in await consumer.getmany(_CHUNK, timeout=_POLL_S):
            at = TopicPartition(message.topic, message.partition)
            by_partition.setdefault(at, []).append(message)
        for at, messages in by_partition.items():
            if (delayer := self._delayers.get(at)) is not None:
                delayer.read(messages, messages[-1].offset + 1)
        paused = set(consumer.paused())
        for at, delayer in list(self._delayers.items()):
            delayer.read((), await consumer.position(at))  # markers of transactions are passed over
            if delayer.full and at not in paused:
                consumer.pause(at)
                _log.warning("%s: too many records are pending; the next ones may be late", at)
            elif not delayer.full and at in paused:
                consumer.resume(at)

    # --- partitions ---

    async def _assigned(
        self, consumer: Consumer, partitions: list[TopicPartition], _: object
    ) -> None:
        consumer.pause(*partitions)
        for at in partitions:
            self._tasks[at] = asyncio.get_running_loop().create_task(self._live(at))

    async def _revoked(self, _: Consumer, partitions: list[TopicPartition], __: object) -> None:
        await asyncio.gather(*(self._end(at) for at in partitions))

    async def _end(self, at: TopicPartition) -> None:
        task = self._tasks.pop(at, None)
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _end_all(self) -> None:
        await asyncio.gather(*(self._end(at) for at in list(self._tasks)))

    async def _live(self, at: TopicPartition) -> None:
        """Take the partition over, and deliver from it until it is revoked."""
        loop = asyncio.get_running_loop()
        pause_s = _PAUSE_S
        while True:
            began = loop.time()
            try:
                await self._deliver(at)
            except KafkaError as problem:
                _log.warning("%s: taken over again: %s", at, problem.detail)
            if loop.time() - began > _PAUSE_S_MAX:
                pause_s = _PAUSE_S  # it went well for a while
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    async def _deliver(self, at: TopicPartition) -> None:
        holding = await prepare_holding_topic(self._admin, at.topic, create=False)
        delayer = PartitionDelayer(
            holding,
            at.partition,
            self._group,
            self._delay_ms_max,
            self._settings,
            self._statistics.setdefault(at, DelayStatistics()),
        )
        try:
            self._opened[at] = delayer, await delayer.open()
            await delayer.run()
        finally:
            self._opened.pop(at, None)
            self._delayers.pop(at, None)
            await delayer.close()
