"""Carries out what the transaction coordinator decides: on this broker's logs, loop and peers.

In: requests about transactional ids, from their handlers; partitions of __transaction_state that
this broker begins and ceases to lead; time. Out: replies, now or later; markers to other brokers.
Always: nothing is answered from a shard that is still being read back. Markers are sent until they
are written, one request at a time to each broker.
Not here: the decisions (coordinators/transactions), the shape of requests (handlers/), writing the
markers that others send (marker_writing.py).
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from traceback import format_exception
from typing import Any, NamedTuple

from barnabas.broker.context import GroupsContext, TransactionsContext
from barnabas.broker.groups.ports import PartitionJournal
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.broker.partition import Partition
from barnabas.broker.role import Role
from barnabas.broker.topic import TRANSACTIONS_TOPIC, Topic
from barnabas.broker.transactions.abort_log import log_aborts
from barnabas.broker.transactions.loading import GivenUp, load
from barnabas.broker.transactions.marker_writing import begin_markers
from barnabas.broker.transactions.producer_id_pool import ProducerIdPool
from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.records import partition_of
from barnabas.coordinators.runtime import Now, Outcome, Runtime, ShardReply
from barnabas.coordinators.transactions.group_records import LoggedRecord
from barnabas.coordinators.transactions.limits import TransactionLimits
from barnabas.coordinators.transactions.markers import (
    NO_LEADER,
    MarkerQueue,
    MarkersDue,
    MarkersWritten,
)
from barnabas.coordinators.transactions.shard import TransactionShard
from barnabas.coordinators.transactions.statistics import TransactionStatistics
from barnabas.model.errors import Code, KafkaError, Retriable
from barnabas.model.features import TRANSACTION_VERSION
from barnabas.model.ids import BrokerId
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

MARKERS_TIMEOUT_MS = 30_000


class CallOrigin(NamedTuple):
    """Who asks, and in which version."""

    version: int
    client_id: str
    host: str


def origin_of(call: Call) -> CallOrigin:
    return CallOrigin(call.version, call.client_id, f"/{call.connection.host}")


Reply = ProtocolMessage | DeferredReply[ProtocolMessage]
TransactionOperation = Callable[[TransactionShard, Caller, Now], Outcome[LoggedRecord]]


def transaction_coordination(broker: TransactionsContext) -> "TransactionCoordination":
    """The broker's, made on first use."""
    if broker.transactions is None:
        broker.transactions = TransactionCoordination(broker)
    return broker.transactions


class PartitionLeaders:
    """Who gets the markers of a partition, as far as this broker knows."""

    def __init__(self, broker: GroupsContext) -> None:
        self._broker = broker

    def leader_of(self, topic: str, partition: int) -> int | None:
        found = self._broker.topics.get(topic)
        if found is None or partition >= len(found.partitions):
            cluster = self._broker.cluster
            # Until the controller has spoken, a topic that is not known here may well be there.
            is_known = cluster is None or cluster.registered.is_set()
            return None if is_known else NO_LEADER
        return found.partitions[partition].leader


class TransactionCoordination:
    """The transaction coordinator of one broker."""

    def __init__(self, broker: GroupsContext) -> None:
        self._broker = broker
        self._loop = broker.loop
        self.runtime: Runtime[TransactionShard] = Runtime()
        self.ids = ProducerIdPool(broker)
        self.queue = MarkerQueue(PartitionLeaders(broker))
        self.statistics = TransactionStatistics()
        self.since_ms = broker.clock.wall_ms()  # causes of aborts are known from here on
        config = broker.config
        self._limits = TransactionLimits(
            timeout_ms_max=config.transaction_max_timeout_ms,
            id_expiration_ms=config.transactional_id_expiration_ms,
            timeout_check_ms=config.transaction_abort_timed_out_transaction_cleanup_interval_ms,
            expiration_check_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
            version=TRANSACTION_VERSION,
        )
        self._topic: Topic | None = None
        self.partitions = 0  # as they were when the shards were taken up: ids must not move
        self._terms: dict[int, int] = {}  # by shard: how often it was taken up
        self._epochs: dict[int, int] = {}  # by shard that was: the leader epoch
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._going_on = False
        self._stopped = False
        if broker.replicas is not None:
            broker.replicas.watch(TRANSACTIONS_TOPIC, self._led)
        self.take_up()

    # Starting and stopping

    async def ready(self) -> None:
        """Make the topic if there is none; wait for what must be read back, and for ids."""
        if self._broker.topics.get(TRANSACTIONS_TOPIC) is None:
            await self._create_topic()
        self.take_up()
        await self.ids.filled()

    def stop(self) -> None:
        """The logs are about to close: nothing more is written."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self.ids.stop()
        for task in self._tasks:
            task.cancel()

    async def _create_topic(self) -> None:
        config = self._broker.config
        overrides = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "unclean.leader.election.enable": "false",
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
        }
        if self._broker.cluster is not None:
            overrides["min.insync.replicas"] = str(config.transaction_state_log_min_isr)
        try:
            await self._broker.catalog.create_topic(
                TRANSACTIONS_TOPIC, config.transaction_state_log_num_partitions, overrides
            )
        except KafkaError as error:
            if error.code is not Code.TOPIC_ALREADY_EXISTS:
                raise

    def take_up(self) -> None:
        """The shards that are this broker's, unless it has; once it is known how many there are."""
        topic = self._broker.topics.get(TRANSACTIONS_TOPIC)
        if topic is None or topic is self._topic or self._stopped:
            return
        cluster = self._broker.cluster
        if cluster is not None and not cluster.view.is_whole(topic):
            return
        for index in self.runtime.partitions():
            self._give_up(index)
        self._topic = topic
        self.partitions = len(topic.partitions)
        for index, partition in enumerate(topic.partitions):
            if partition.role is Role.LEADER:
                self._take_up_one(index, partition)

    def _take_up_one(self, index: int, partition: Partition) -> None:
        """At once if there is nothing in its log, else when it is loaded."""
        self._terms[index] = term = self._terms.get(index, 0) + 1
        self._epochs[index] = partition.leader_epoch
        partition.on_commit = partial(self._committed, index)
        partition.on_leadership_lost = partial(self._loop.call_soon, self._lost, index, term)
        shard = TransactionShard(self._limits, self.ids, partition.leader_epoch, self.statistics)
        self.runtime.start_loading(index, shard, PartitionJournal(partition))
        if partition.log.end_offset > partition.log.start_offset:
            self._keep(self._loop.create_task(self._load(index, partition)))
        else:
            self._loaded(index, 0)

    async def _load(self, index: int, partition: Partition) -> None:
        try:
            bytes_at_once = self._broker.config.transaction_state_log_load_buffer_size
            end = await load(self._broker, self.runtime, index, partition, bytes_at_once)
        except GivenUp:
            return
        except Exception as error:
            # Without all of its log a shard would decide wrongly: better that it does not.
            self._give_up(index)
            self._broker.log.error(
                "transactions not loaded",
                partition=f"{TRANSACTIONS_TOPIC}-{index}",
                reason=repr(error),
            )
            return
        self._loaded(index, end)

    def _loaded(self, index: int, end: int) -> None:
        self.runtime.finish_loading(index, self.now(), end)
        self._arm(self.runtime.shard(index).next_deadline())
        self._go_on()

    def _committed(self, index: int) -> None:
        """Records that had to be synced first, or elsewhere too, now are."""
        self._deliver(self.runtime.watermark_moved(index))
        if self.runtime.is_active(index):
            self._arm(self.runtime.shard(index).next_deadline())
        self._go_on()

    def _lost(self, index: int, term: int) -> None:
        """The log is unreachable, deleted, or led by another broker, which continues."""
        if self._terms.get(index) == term and not self._stopped:
            self._epochs.pop(index, None)
            self._give_up(index)

    def _give_up(self, index: int) -> None:
        self.queue.drop(index)
        self._deliver(self.runtime.unload(index))

    def _led(self, partition: Partition) -> None:
        """This broker leads it from now on."""
        index = partition.name.partition
        self.take_up()
        if self._topic is None or self._stopped or index >= self.partitions:
            return
        if (
            self._topic.partitions[index] is partition
            and self._epochs.get(index) != partition.leader_epoch
        ):
            self._lost(index, self._terms.get(index, 0))
            self._take_up_one(index, partition)

    # Requests

    def leader_of(self, transactional_id: str) -> int:
        """The broker that coordinates it; -1 if there is none now."""
        self.take_up()
        if self._topic is None:
            return NO_LEADER
        return self._topic.partitions[partition_of(transactional_id, self.partitions)].leader

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """To look at."""
        return self.runtime.shard(self._index_of(transactional_id))

    def shards(self) -> list[TransactionShard]:
        """All of them, to look at; COORDINATOR_LOAD_IN_PROGRESS while one is loading."""
        self.take_up()
        return [self.runtime.shard(index) for index in self.runtime.partitions()]

    def shards_loaded(self) -> list[TransactionShard]:
        """Those that can be looked at now."""
        indexes = self.runtime.partitions()
        return [self.runtime.shard(index) for index in indexes if self.runtime.is_active(index)]

    def _index_of(self, transactional_id: str) -> int:
        """NOT_COORDINATOR until a FindCoordinator request has created the topic."""
        self.take_up()
        if self._topic is None:
            raise Retriable(Code.NOT_COORDINATOR, f"topic {TRANSACTIONS_TOPIC} does not exist yet")
        return partition_of(transactional_id, self.partitions)

    def run(
        self, transactional_id: str, operation: TransactionOperation, origin: CallOrigin
    ) -> Reply:
        """Run an operation on the id's shard; its answer may wait for the log."""
        deferred: DeferredReply[ProtocolMessage] = DeferredReply()
        caller = Caller(deferred, origin.version, origin.client_id, origin.host)
        index = self._index_of(transactional_id)
        now = self.now()
        shard = self.runtime.shard(index)
        if self._going_on and transactional_id in shard.table.unmarked:
            self._send_markers()  # or this request would find the transaction incomplete
        self._deliver(self.runtime.carry_out(index, operation(shard, caller, now), now))
        self._arm(shard.next_deadline())
        self._go_on()
        return deferred.take() if deferred.done else deferred

    # Markers and time

    def now(self) -> Now:
        return Now(self._broker.clock.monotonic_ms(), self._broker.clock.wall_ms())

    def _go_on(self) -> None:
        """Soon: what is decided in one iteration of the loop shares requests for markers, and its
        transactions are complete before their producers can begin the next ones."""
        if not self._going_on:
            self._going_on = True
            self._loop.call_soon(self._send_markers)

    def _send_markers(self) -> None:
        """All that are due, until nothing more follows from it."""
        self._going_on = False
        if self._stopped:
            return
        if self.statistics.unlogged:
            log_aborts(self._broker.log, self.statistics)
        now = self.now()
        while True:
            for index, effect in self.runtime.take_effects():
                assert isinstance(effect, MarkersDue)
                self.queue.add(index, effect)
            requests, done = self.queue.requests(now.ms)
            for broker, request in requests:
                begun = self._begin_here(request) if broker == self._broker.id else None
                if isinstance(begun, WriteTxnMarkersResponse):
                    for index, written in self.queue.answered(broker, begun, now.ms).items():
                        done.setdefault(index, []).extend(written)
                else:
                    self._keep(self._loop.create_task(self._send(broker, request, begun)))
            if not done:
                break
            self._written(done, now)
        self._arm(self.queue.next_deadline())

    def _begin_here(
        self, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse | Coroutine[Any, Any, WriteTxnMarkersResponse]:
        try:
            return begin_markers(self._broker, request)
        except Exception as error:
            self._failed(error)
            return WriteTxnMarkersResponse(markers=[])  # they are sent again

    async def _send(
        self,
        broker: int,
        request: WriteTxnMarkersRequest,
        begun: Coroutine[Any, Any, WriteTxnMarkersResponse] | None,
    ) -> None:
        response: ProtocolMessage | None = None
        try:
            if begun is not None:
                response = await begun
            elif self._broker.cluster is not None:
                response = await self._broker.cluster.peers.call(
                    BrokerId(broker), request, lane="markers", timeout_ms=MARKERS_TIMEOUT_MS
                )
        except KafkaError:
            pass  # they are sent again
        except Exception as error:
            self._failed(error)  # the same, or no marker would ever go to that broker again
        now = self.now()
        said = response if isinstance(response, WriteTxnMarkersResponse) else None
        self._written(self.queue.answered(broker, said, now.ms), now)
        self._go_on()

    def _written(self, done: dict[int, list[MarkersWritten]], now: Now) -> None:
        for index, written in done.items():
            if self.runtime.is_active(index):
                shard = self.runtime.shard(index)
                outcome = shard.markers_written(written, now)
                self._deliver(self.runtime.carry_out(index, outcome, now))
                self._arm(shard.next_deadline())

    def _deliver(self, answers: list[ShardReply]) -> None:
        for token, response in answers:
            assert isinstance(token, DeferredReply)
            token.set(response)

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self._broker.counts.failures += 1
        trace = "".join(format_exception(error))
        self._broker.log.error("work on transactions failed", error=repr(error), trace=trace)

    def _arm(self, deadline_ms: int | None) -> None:
        if deadline_ms is None or self._stopped:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        wait_ms = max(0, deadline_ms - self._broker.clock.monotonic_ms())
        self._timer = self._loop.call_later(wait_ms / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        if not self._stopped:
            self._deliver(self.runtime.expire(self.now(), self._failed))
            self._arm(self.runtime.next_deadline())
            self._go_on()
