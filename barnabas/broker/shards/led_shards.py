"""The shards of one coordinator that this broker has, because it leads their partitions.

In: partitions of the coordinator's topic that this broker starts or stops leading; records that are
committed; time. Out: shards that are loaded and unloaded; replies; calls at deadlines.
Always: a shard that is loading, or whose partition another broker leads, answers no request; a
request that waits when this broker stops leading is answered with NOT_COORDINATOR; a fault in one
shard stops neither the replies nor the deadlines of the others.
Not here: the decisions (coordinators/), what only one coordinator does (groups/, transactions/,
share/).
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from functools import partial
from traceback import format_exception
from typing import Any, Generic, TypeVar

from barnabas.broker.context import ClusterContext
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.partition import Partition
from barnabas.broker.role import Role
from barnabas.broker.shards.journal import PartitionJournal
from barnabas.broker.shards.loading import LoadingCancelled, stored_batches
from barnabas.broker.topic import Topic
from barnabas.coordinators.ports import AnyShard
from barnabas.coordinators.runtime import Now, Runtime, ShardReply
from barnabas.model.errors import Code, Retriable

NO_LEADER = -1

S = TypeVar("S", bound=AnyShard)  # type: ignore[type-arg]


class Coordinator(ABC, Generic[S]):
    """What one kind of coordinator does at these moments."""

    @abstractmethod
    def new_shard(self, partition: Partition) -> S: ...

    @abstractmethod
    def load(self, index: int, partition: Partition) -> None:
        """Start to load a shard whose log is not empty; call `finish_loading` afterwards."""

    def topic_found(self, topic: Topic) -> None:
        """Its topic is known, or a new one of that name. Shards are created next."""

    def shard_loaded(self, index: int) -> None:
        """It answers requests from now on."""

    def records_committed(self, index: int) -> None:
        """Replies that waited for these records have left."""

    def shard_unloading(self, index: int) -> None:
        """It is about to be dropped."""

    def deadlines_handled(self) -> None:
        """Shards may have aborted, expired or removed something."""


class LedShards(Generic[S]):
    """Those of `topic_name`; `work` names them in log lines."""

    def __init__(
        self, broker: ClusterContext, topic_name: str, work: str, coordinator: Coordinator[S]
    ) -> None:
        self._broker = broker
        self._topic_name = topic_name
        self._work = work
        self._coordinator = coordinator
        self.runtime: Runtime[S] = Runtime()
        self.topic: Topic | None = None
        self.stopped = False
        self._partitions = 0  # when shards were created: a key must not move to another one
        self._terms: dict[int, int] = {}  # by shard: how often this broker has loaded it
        self.epochs: dict[int, int] = {}  # by shard of this broker: the leader epoch
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0

    # Coming and going

    def start(self) -> None:
        if self._broker.replicas is not None:
            self._broker.replicas.watch(self._topic_name, self._led)
        self.take_up()

    def stop(self) -> None:
        """The logs are about to close: nothing more is written."""
        self.stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()

    def take_up(self) -> None:
        """Load this broker's shards, once; not before the number of partitions is known."""
        topic = self._broker.topics.get(self._topic_name)
        if topic is None or topic is self.topic or self.stopped:
            return
        cluster = self._broker.cluster
        if cluster is not None and not cluster.view.is_whole(topic):
            return
        for index in self.runtime.partitions():  # the topic was deleted and created again
            self.unload(index)
        self.topic = topic
        self._partitions = len(topic.partitions)
        self._coordinator.topic_found(topic)
        for index, partition in enumerate(topic.partitions):
            # An offline partition may have state: no reply may say that there is none.
            if partition.role is Role.LEADER:
                self._take_up_one(index, partition)

    def _take_up_one(self, index: int, partition: Partition) -> None:
        """The shard answers at once if its log is empty, otherwise when it is loaded."""
        self._terms[index] = term = self._terms.get(index, 0) + 1
        self.epochs[index] = partition.leader_epoch
        partition.on_commit = partial(self._committed, index)
        partition.on_leadership_lost = partial(self._broker.loop.call_soon, self._lost, index, term)
        shard = self._coordinator.new_shard(partition)
        self.runtime.start_loading(index, shard, PartitionJournal(partition))
        if partition.log.end_offset > partition.log.start_offset:
            self._coordinator.load(index, partition)
        else:
            self.finish_loading(index, 0)

    async def load_from_log(self, index: int, partition: Partition, bytes_at_once: int) -> None:
        end = partition.log.end_offset
        stored = stored_batches(self._broker, self.runtime, index, partition, end, bytes_at_once)
        try:
            async for header, batch in stored:
                self.runtime.load(index, batch, header)
        except LoadingCancelled:
            return
        except Exception as error:
            self.not_loaded(index, error)
            return
        self.finish_loading(index, end)

    def finish_loading(self, index: int, end: int) -> None:
        """The shard has replayed its log up to the offset `end`."""
        self.runtime.finish_loading(index, self.now(), end)
        self.arm(self.runtime.shard(index).next_deadline())
        self._coordinator.shard_loaded(index)

    def not_loaded(self, index: int, error: Exception) -> None:
        """A shard without its whole log would decide wrongly: it answers nothing."""
        self.unload(index)
        where = f"{self._topic_name}-{index}"
        self._broker.log.error(f"{self._work} not loaded", partition=where, reason=repr(error))

    def unload(self, index: int) -> None:
        self._coordinator.shard_unloading(index)
        self.deliver(self.runtime.unload(index))

    def is_term(self, index: int, term: int) -> bool:
        """Whether the shard is still the one that was loaded as the `term`th."""
        return self._terms.get(index) == term and not self.stopped

    def term(self, index: int) -> int:
        return self._terms.get(index, 0)

    def _committed(self, index: int) -> None:
        """Records that waited for a sync or for other replicas are committed."""
        self.deliver(self.runtime.watermark_moved(index))
        self._coordinator.records_committed(index)

    def _lost(self, index: int, term: int) -> None:
        """The log is offline, deleted, or led by another broker: answer the waiting requests.

        Called by the event loop after the code that noticed it."""
        if self.is_term(index, term):
            self.epochs.pop(index, None)
            self.unload(index)

    def _led(self, partition: Partition) -> None:
        """This broker leads the partition now: load its shard from the log."""
        index = partition.name.partition
        self.take_up()
        if self.topic is None or self.stopped or index >= self._partitions:
            return  # loaded when all partitions of the topic are known
        is_new = self.epochs.get(index) != partition.leader_epoch
        if is_new and self.topic.partitions[index] is partition:
            self._lost(index, self.term(index))
            self._take_up_one(index, partition)

    # Looking

    def total(self) -> int:
        """How many shards all brokers have; NOT_COORDINATOR until a FindCoordinator request has
        created the topic."""
        self.take_up()
        if self.topic is None:
            raise Retriable(Code.NOT_COORDINATOR, f"topic {self._topic_name} does not exist yet")
        return self._partitions

    def leader_of(self, index: int) -> int:
        """The broker that has the shard; -1 if there is none now."""
        return NO_LEADER if self.topic is None else self.topic.partitions[index].leader

    def all_of_them(self) -> list[S]:
        """Read only; COORDINATOR_LOAD_IN_PROGRESS while one is loading."""
        self.take_up()
        return [self.runtime.shard(index) for index in self.runtime.partitions()]

    def loaded(self) -> list[S]:
        """Those that answer requests now, read only."""
        indexes = self.runtime.partitions()
        return [self.runtime.shard(index) for index in indexes if self.runtime.is_active(index)]

    # Time, tasks and replies

    def now(self) -> Now:
        return Now(self._broker.clock.monotonic_ms(), self._broker.clock.wall_ms())

    def deliver(self, answers: list[ShardReply]) -> None:
        for token, response in answers:
            assert isinstance(token, DeferredReply)
            try:
                token.set(response)
            except Exception as error:  # the other replies must still be sent
                self.failed(error)

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it as a task, until the broker stops."""
        task = self._broker.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(error)

    def failed(self, error: BaseException) -> None:
        self._broker.counts.failures += 1
        trace = "".join(format_exception(error))
        self._broker.log.error(f"work on {self._work} failed", error=repr(error), trace=trace)

    def arm(self, deadline_ms: int | None) -> None:
        """Call the shards at this time, if nothing is due earlier."""
        if deadline_ms is None or self.stopped:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        wait_ms = max(0, deadline_ms - self._broker.clock.monotonic_ms())
        self._timer = self._broker.loop.call_later(wait_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if self.stopped:
            return
        try:
            self.deliver(self.runtime.expire(self.now(), self.failed))
            self._coordinator.deadlines_handled()
        finally:
            self.arm(self.runtime.next_deadline())
