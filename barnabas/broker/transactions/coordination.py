"""Carries out what the transaction coordinator decides: on this broker's logs, loop and peers.

In: requests about transactional ids, from their handlers; partitions of __transaction_state that
this broker begins and ceases to lead; time. Out: replies, now or later; markers to other brokers.
Always: nothing is answered from a shard that is still being read back. Markers are sent until they
are written, one request at a time to each broker.
Not here: the decisions (coordinators/transactions), the shape of requests (handlers/), writing the
markers that others send (marker_writing.py), loading and unloading (broker/shards).
"""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from barnabas.broker.context import GroupsContext, TransactionsContext
from barnabas.broker.net.deferred_reply import DeferredReply
from barnabas.broker.net.dispatch import Call
from barnabas.broker.partition import Partition
from barnabas.broker.shards.led_shards import Coordinator, LedShards
from barnabas.broker.topic import TRANSACTIONS_TOPIC
from barnabas.broker.transactions.abort_log import log_aborts
from barnabas.broker.transactions.local_markers import AT_ONCE_MAX, PartitionLeaders, write_now
from barnabas.broker.transactions.marker_writing import begin_markers
from barnabas.broker.transactions.producer_id_pool import ProducerIdPool
from barnabas.broker.transactions.state_topic import create_topic
from barnabas.coordinators.caller import Caller
from barnabas.coordinators.groups.records import partition_of
from barnabas.coordinators.runtime import Now, Outcome
from barnabas.coordinators.transactions.adding import PartitionCodes
from barnabas.coordinators.transactions.decision import Identity
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
from barnabas.coordinators.transactions.transaction import Partitions
from barnabas.model.errors import KafkaError
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


class TransactionCoordination(Coordinator[TransactionShard]):
    """The transaction coordinator of one broker."""

    def __init__(self, broker: GroupsContext) -> None:
        self._broker = broker
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
        self._going_on = False
        self.led: LedShards[TransactionShard] = LedShards(
            broker, TRANSACTIONS_TOPIC, "transactions", self
        )
        self.runtime = self.led.runtime
        self.led.start()

    # Starting and stopping

    async def ready(self) -> None:
        """Make the topic if there is none; wait for what must be read back, and for ids."""
        if self._broker.topics.get(TRANSACTIONS_TOPIC) is None:
            await create_topic(self._broker)
        self.led.take_up()
        await self.ids.filled()

    def stop(self) -> None:
        """The logs are about to close: nothing more is written."""
        self.led.stop()
        self.ids.stop()

    # The shards

    @property
    def partitions(self) -> int:
        return self.led.total()

    def new_shard(self, partition: Partition) -> TransactionShard:
        return TransactionShard(self._limits, self.ids, partition.leader_epoch, self.statistics)

    def load(self, index: int, partition: Partition) -> None:
        bytes_at_once = self._broker.config.transaction_state_log_load_buffer_size
        self.led.keep(self.led.load_from_log(index, partition, bytes_at_once))

    def shard_loaded(self, index: int) -> None:
        self._go_on()

    def records_committed(self, index: int) -> None:
        if self.runtime.is_active(index):
            self.led.arm(self.runtime.shard(index).next_deadline())
        self._go_on()

    def shard_unloading(self, index: int) -> None:
        self.queue.drop(index)

    def deadlines_handled(self) -> None:
        self._go_on()

    # Requests

    def leader_of(self, transactional_id: str) -> int:
        """The broker that coordinates it; -1 if there is none now."""
        self.led.take_up()
        if self.led.topic is None:
            return NO_LEADER
        return self.led.leader_of(self._index_of(transactional_id))

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """To look at."""
        return self.runtime.shard(self._index_of(transactional_id))

    def shards(self) -> list[TransactionShard]:
        """All of them, to look at; COORDINATOR_LOAD_IN_PROGRESS while one is loading."""
        return self.led.all_of_them()

    def shards_loaded(self) -> list[TransactionShard]:
        """Those that can be looked at now."""
        return self.led.loaded()

    def _index_of(self, transactional_id: str) -> int:
        return partition_of(transactional_id, self.led.total())

    def run(
        self, transactional_id: str, operation: TransactionOperation, origin: CallOrigin
    ) -> Reply:
        """Run an operation on the id's shard; its answer may wait for the log."""
        deferred: DeferredReply[ProtocolMessage] = DeferredReply()
        caller = Caller(deferred, origin.version, origin.client_id, origin.host)
        index = self._index_of(transactional_id)
        now = self.led.now()
        shard = self.runtime.shard(index)
        if self._going_on and transactional_id in shard.table.unmarked:
            self._send_markers()  # or this request would find the transaction incomplete
        self.led.deliver(self.runtime.carry_out(index, operation(shard, caller, now), now))
        self.led.arm(shard.next_deadline())
        self._go_on()
        return deferred.take() if deferred.done else deferred

    def verified_now(
        self, transactional_id: str, producer: Identity, partitions: Partitions
    ) -> PartitionCodes | None:
        """Are they in the transaction? None if the answer has to wait for the log."""
        index = self._index_of(transactional_id)
        shard = self.runtime.shard(index)
        if self._going_on and transactional_id in shard.table.unmarked:
            self._send_markers()
        if not self.runtime.is_committed(index):
            return None
        return shard.verified(transactional_id, producer, partitions)

    # Markers and time

    def _go_on(self) -> None:
        """Soon: what is decided in one iteration of the loop shares requests for markers, and its
        transactions are complete before their producers can begin the next ones."""
        if not self._going_on:
            self._going_on = True
            self._broker.loop.call_soon(self._send_markers)

    def _send_markers(self) -> None:
        """All that are due, until nothing more follows from it."""
        self._going_on = False
        if self.led.stopped:
            return
        if self.statistics.unlogged:
            log_aborts(self._broker.log, self.statistics)
        now, here_now = self.led.now(), 0  # partitions
        while True:
            here = []
            for index, effect in self.runtime.take_effects():
                assert isinstance(effect, MarkersDue)
                here_now += sum(map(len, effect.partitions.values()))
                is_few = here_now <= AT_ONCE_MAX
                written, left = self._write_here(effect, now) if is_few else (None, effect)
                if written is not None:
                    here.append((index, written))
                if left is not None:
                    self.queue.add(index, left)
            requests, done = self.queue.requests(now.ms)
            for index, written in here:
                done.setdefault(index, []).append(written)
            for broker, request in requests:
                begun = self._begin_here(request) if broker == self._broker.id else None
                if isinstance(begun, WriteTxnMarkersResponse):
                    answered = self.queue.answered(broker, begun, now.ms)
                    for index, all_written in answered.items():
                        done.setdefault(index, []).extend(all_written)
                else:
                    self.led.keep(self._send(broker, request, begun))
            if not done:
                break
            self._written(done, now)
        self.led.arm(self.queue.next_deadline())

    def _write_here(
        self, due: MarkersDue, now: Now
    ) -> tuple[MarkersWritten | None, MarkersDue | None]:
        try:
            return write_now(self._broker, due, now.wall_ms)
        except Exception as error:
            self.led.failed(error)
            return None, due  # the queue sends them

    def _begin_here(
        self, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersResponse | Coroutine[Any, Any, WriteTxnMarkersResponse]:
        try:
            return begin_markers(self._broker, request)
        except Exception as error:
            self.led.failed(error)
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
            self.led.failed(error)  # the same, or no marker would ever go to that broker again
        now = self.led.now()
        said = response if isinstance(response, WriteTxnMarkersResponse) else None
        self._written(self.queue.answered(broker, said, now.ms), now)
        self._go_on()

    def _written(self, done: dict[int, list[MarkersWritten]], now: Now) -> None:
        for index, written in done.items():
            if self.runtime.is_active(index):
                shard = self.runtime.shard(index)
                outcome = shard.markers_written(written, now)
                self.led.deliver(self.runtime.carry_out(index, outcome, now))
                self.led.arm(shard.next_deadline())
