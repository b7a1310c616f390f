"""Which replicas on this broker are incomplete: they lost their log and have not caught up since.

In: LeaderAndIsr and UpdateMetadata. Out: marks on disk; a refusal to lead without all committed
records.
Always: a mark is on disk before the missing log is created; it is removed once the replica has left
the in-sync set and has rejoined it, or once the controller decides that no replica has more.
Always: a replica does not become the only member of the in-sync set before the removal of its mark
is on disk: after a crash nobody could lead. (A disk that is full or hangs delays it MARKS_S.)
Not here: what a broker reports about its replicas (logs.py), which replica leads
(controller/proof.py).
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any
from uuid import UUID

from barnabas.broker.partition import Partition
from barnabas.broker.replicas.logs import describe
from barnabas.broker.storage.log_directory import OpenLogDirectory
from barnabas.broker.topic import Topic
from barnabas.controller.proof import ReplicaCompleteness
from barnabas.model.errors import Code, Failed
from barnabas.model.ids import NO_TOPIC_ID, TopicPartition
from barnabas.replication.state import PartitionState
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest

if TYPE_CHECKING:
    from barnabas.broker.context import ReplicasContext

MARKS_S = 1.0  # how long a request waits until marks are removed on disk


class IncompleteReplicas:
    """The incomplete replicas of one broker."""

    def __init__(
        self, broker: "ReplicasContext", spawn: Callable[[Coroutine[Any, Any, None]], object]
    ) -> None:
        self._broker = broker
        self._spawn = spawn
        # Replicas that were seen outside the in-sync set.
        self._seen_out: dict[TopicPartition, None] = {}
        # Replicas that had all committed records while this process wrote them, with the topic id.
        self._confirmed: dict[TopicPartition, UUID] = {}
        # Complete replicas whose mark is still on disk.
        self._unwritten: dict[TopicPartition, asyncio.Event] = {}
        self._writing = False

    def mark_missing(self, request: LeaderAndIsrRequest) -> None:
        """Missing logs that are not new: the mark is on disk before one of them is created. A log
        on an offline directory is not missing: no other log is created in its place. Nor is the log
        of a leader: the controller elected it without a log, so no replica has more."""
        logs = self._broker.logs
        missing = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                name = TopicPartition(topic.topic_name, state.partition_index)
                log = logs.logs.get(name)
                exists = log is not None and log.topic_id in (topic.topic_id, NO_TOPIC_ID)
                offline = not state.is_new and logs.where_lost(name)
                led = state.leader == self._broker.id
                if not (exists or offline or led or self.is_new(state)):
                    missing.append(name)
        logs.mark_incomplete(missing)

    def is_new(self, state: LeaderAndIsrPartitionState) -> bool:
        """A replica that is added to a partition is new as well, but has records to copy."""
        return state.is_new and self._broker.id in state.isr

    def check_may_lead(
        self, topic: Topic, partition: Partition, state: LeaderAndIsrPartitionState
    ) -> None:
        """Refuse to lead without all committed records: the other replicas would be truncated."""
        broker = self._broker
        if state.leader != broker.id or partition.leading is not None:
            return
        report = describe(broker, partition.name, topic.id)
        chosen = state.leader_recovery_state or self.is_new(state)  # though others may have more
        if chosen or report.copy is not ReplicaCompleteness.LOST:
            self._complete(partition.name)  # the controller has decided that no replica has more
            return
        raise Failed(
            Code.KAFKA_STORAGE_ERROR,
            f"broker {broker.id} does not lead {partition.name}: it {report.reason}",
        )

    def isr_changed(self, partition: Partition, state: PartitionState) -> None:
        """A replica that rejoins the in-sync set has caught up."""
        name = partition.name
        if self._broker.id not in state.isr:
            self._seen_out[name] = None
        elif name in self._seen_out:
            self.confirm(name)
            self._complete(name)

    def confirm(self, name: TopicPartition) -> None:
        """This process leads it, created it with its partition, or has caught up with its leader.
        A role alone proves nothing: after a power loss, a log may have lost its end."""
        log = self._broker.logs.logs.get(name)
        if log is not None:
            self._confirmed[name] = log.topic_id

    def is_confirmed(self, name: TopicPartition, topic_id: UUID) -> bool:
        return self._confirmed.get(name) == topic_id

    def forget(self, name: TopicPartition) -> None:
        """The replica is deleted."""
        self._seen_out.pop(name, None)
        self._confirmed.pop(name, None)

    def _complete(self, name: TopicPartition) -> None:
        """It has all committed records."""
        logs = self._broker.logs
        self._seen_out.pop(name, None)
        if logs.incomplete(name) is None:
            return
        logs.complete(name)
        self._unwritten[name] = asyncio.Event()
        if not self._writing:
            self._writing = True
            self._spawn(self._write_marks())

    async def _write_marks(self) -> None:
        """On disk soon: after a crash, complete replicas would be considered incomplete."""
        await asyncio.sleep(0)  # many may have caught up at once
        self._writing = False
        unwritten = dict(self._unwritten)
        online = self._broker.logs.online()
        await asyncio.gather(*(self._write_marks_of(each, unwritten) for each in online))
        self._written(unwritten)  # those whose log directory is offline

    async def _write_marks_of(
        self, log_directory: OpenLogDirectory, unwritten: dict[TopicPartition, asyncio.Event]
    ) -> None:
        await log_directory.checkpoint()
        logs = log_directory.logs.logs
        self._written({name: event for name, event in unwritten.items() if name in logs})

    def _written(self, events: dict[TopicPartition, asyncio.Event]) -> None:
        for name, event in events.items():
            event.set()
            if self._unwritten.get(name) is event:
                del self._unwritten[name]

    def when_written(self, name: TopicPartition, call: Callable[[], None]) -> None:
        """At once, if no mark of this replica is on disk."""

        async def wait_and_call() -> None:
            await self.marks_written([name])
            call()

        if name in self._unwritten:
            self._spawn(wait_and_call())
        else:
            call()

    async def marks_written(self, names: Iterable[TopicPartition]) -> None:
        """The directory that has the log decides (storage.py), so the others are not awaited."""
        events = [event for name in names if (event := self._unwritten.get(name)) is not None]
        if events:
            waits = [asyncio.ensure_future(event.wait()) for event in events]
            _, late = await asyncio.wait(waits, timeout=MARKS_S)
            for wait in late:
                wait.cancel()
